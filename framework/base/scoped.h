// framework/base/scoped.h - locals that are released where their block ends, on every path
//
//   BT_SCOPED(bt_str) path = {0};      // bt_str_release(&path)
//   BT_SCOPED_MEM(char *) text = NULL; // bt_mem_free(text)
//
// Invariants
//   1. A scoped local is initialized where it is declared, and its release accepts that value.
//   2. Locals are released in reverse order, after the value of a return statement is computed.
//   3. A function that hands a local over leaves the empty value in its place.
// Needs the attribute `cleanup` of gcc and clang.
#ifndef BT_BASE_SCOPED_H
#define BT_BASE_SCOPED_H

#include "framework/base/idioms.h"
#include "framework/base/mem.h"
#include "framework/base/str.h"

// A local of a type whose release is TYPE_release.
#define BT_SCOPED(type) __attribute__((cleanup(type##_release))) type
// A pointer to a block of bt_mem_alloc and the like, or NULL.
#define BT_SCOPED_MEM(type) __attribute__((cleanup(bt_mem_free_local))) type

// Frees the block that a local pointer points to; NULL: nothing.
void bt_mem_free_local(void *pointer);

#endif
