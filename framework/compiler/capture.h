// framework/compiler/capture.h - a graph of what a context runs
//
//   bt_dag_capture capture;
//   bt_dag_capture_begin(&context, true, &capture);
//   ... ops, bt_backward ...
//   bt_dag_capture_output(&capture, loss); ... of each leaf's gradient
//   bt_dag_capture_end(&capture, &graph);
//
// What runs meanwhile runs as always; the graph has each kernel launch, with the op and the phase
// that made it. A storage that was there before, or that the host wrote, is an input when it is
// first read.
//
// Invariants
//   1. Memory belongs to the newest storage that was made or seen there. So a storage whose memory
//      the pool gave on is not confused with its successor.
//   2. The first failure stops the recording, never what runs; bt_dag_capture_end returns it.
//   3. Not captured: what another stream or thread does, activations that wait in host memory
//      (BT_RECOMPUTE_BLOCK_OFFLOAD), the optimizer's lists. They are errors, never a wrong graph.
#ifndef BT_COMPILER_CAPTURE_H
#define BT_COMPILER_CAPTURE_H

#include "framework/compiler/graph.h"
#include "framework/tensor/tensor.h"

typedef struct bt_dag_storage {
    char *data; // not owned; of the storage
    int64_t size_bytes;
    uint64_t serial, version;
    int value; // its contents now; -1: undefined
} bt_dag_storage;

// Where an input's contents come from.
typedef struct bt_dag_source {
    void *memory;      // where it was when it was first read, or a copy, which is owned
    bt_tensor *tensor; // retained, a view of the storage; NULL: the host wrote it meanwhile, or it
                       // is the gradient of a leaf
} bt_dag_source;

typedef struct bt_dag_capture {
    bt_context *context; // borrowed
    bt_dag graph;
    bt_dag_storage *storages; // owned [storage_count], oldest first
    int storage_count, storage_capacity;
    bool keeps;            // copies of inputs
    bt_dag_source *inputs; // owned [input_capacity], by value
    int input_capacity;
    int lists; // of products that were launched as one
    bt_dag_phase phase;
    char origin[32];
    bt_status status;
    char message[256]; // of status
} bt_dag_capture;

// `capture` must stay where it is until the end. keeps_inputs: copies inputs when they are first
// read, so that the graph can be run on them later.
// Errors  INVALID_ARGUMENT where somebody else listens to the context's kernels or trace
BT_CHECKED bt_status bt_dag_capture_begin(bt_context *context, bool keeps_inputs,
                                          bt_dag_capture *capture);
// The tensor's contents now are an output; its storage is one as a whole.
// Errors  INVALID_ARGUMENT where nothing that was captured made or read it
BT_CHECKED bt_status bt_dag_capture_output(bt_dag_capture *capture, const bt_tensor *tensor);
// The value that a tensor's storage holds now, -1 where none was captured. offset: of the tensor.
int bt_dag_capture_value(const bt_dag_capture *capture, const bt_tensor *tensor,
                         int64_t *offset_bytes);
// The input's memory, a copy where the capture keeps them, else where they were when they were
// first read; NULL for other values.
void *bt_dag_capture_input(const bt_dag_capture *capture, int value);
// A tensor of the storage that the input is; NULL as in bt_dag_source. Borrowed.
bt_tensor *bt_dag_capture_source(const bt_dag_capture *capture, int value);
// Stops listening and gives the graph away; *capture can be asked for inputs until it is released.
// Owns    the caller owns *graph, {0} after a failure
// Errors  the first one while recording: INVALID_ARGUMENT naming kernel and operand, OUT_OF_MEMORY
BT_CHECKED bt_status bt_dag_capture_end(bt_dag_capture *capture, bt_dag *graph);
void bt_dag_capture_release(bt_dag_capture *capture);

#endif
