// framework/compiler/program_parts.h - what a program is made of; for program.c and program_run.c
#ifndef BT_COMPILER_PROGRAM_PARTS_H
#define BT_COMPILER_PROGRAM_PARTS_H

#include "framework/compiler/program.h"

enum { BT_PROGRAM_NONE = -1, BT_PROGRAM_ARGS_BYTES = 1024, BT_PROGRAM_PRODUCTS = 16 };

// Actions on places other than launches.
typedef enum bt_program_action_kind {
    BT_PROGRAM_MAKE, // allocate memory for place a
    BT_PROGRAM_COPY, // copy place a to place b
    BT_PROGRAM_DROP  // free the memory of place a
} bt_program_action_kind;

typedef struct bt_program_action {
    bt_program_action_kind kind;
    int a, b;
} bt_program_action;

typedef struct bt_program_unit {
    int fusion;               // BT_PROGRAM_NONE: calls
    int node, count;          // the first call, and the number of calls launched as one
    int before, after, until; // actions: [before, after) come first, [after, until) last
} bt_program_unit;

// Memory shared by values that replace each other in place.
typedef struct bt_program_place {
    int64_t size_bytes;
    int given;  // the input or output whose memory the caller gives; BT_PROGRAM_NONE: the program
                // allocates it
    int latest; // value that it holds
} bt_program_place;

struct bt_program {
    const bt_dag *graph;          // borrowed
    const bt_fusion_plan *fusion; // borrowed; NULL: no groups
    bt_program_unit *units;       // owned [unit_count], in order
    bt_program_action *actions;   // owned [action_count]
    bt_program_place *places;     // owned [place_count]
    int *place_of;                // owned [value_count]; BT_PROGRAM_NONE: nothing makes or reads it
    int unit_count, action_count, action_capacity, place_count;
    int ending; // the actions after the last unit begin here
};

#endif
