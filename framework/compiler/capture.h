// framework/compiler/capture.h - a graph of what a context runs
//
//   bt_dag_capture capture;
//   bt_dag_capture_begin(&context, true, &capture);
//   ... ops, bt_backward ...
//   bt_dag_capture_output(&capture, loss); ... of each leaf's gradient
//   bt_dag_capture_end(&capture, &graph);
//
// Capturing does not change execution. The graph records each kernel launch with its op and phase.
// A storage that existed before the capture, or that the host wrote, becomes an input when it is
// first read.
//
// Invariants
//   1. An address belongs to the newest storage created or seen there, so a storage whose memory
//      the pool has reused is not confused with its successor.
//   2. The first failure stops the recording, not the execution; bt_dag_capture_end returns it.
//   3. Not captured: work on other streams or threads, activations offloaded to host memory
//      (BT_RECOMPUTE_BLOCK_OFFLOAD), the list ops of the optimizer. They are reported as errors.
#ifndef BT_COMPILER_CAPTURE_H
#define BT_COMPILER_CAPTURE_H

#include "framework/compiler/graph.h"
#include "framework/tensor/tensor.h"

typedef struct bt_dag_storage {
    char *data; // not owned; of the storage
    int64_t size_bytes;
    uint64_t serial, version;
    int value; // its current contents; -1: undefined
} bt_dag_storage;

// Where an input's contents come from.
typedef struct bt_dag_source {
    void *memory;      // address at the first read, or an owned copy
    bt_tensor *tensor; // retained, a view of the storage; NULL: the host wrote it after the first
                       // read, or it is the gradient of a leaf
} bt_dag_source;

typedef struct bt_dag_capture {
    bt_context *context; // borrowed
    bt_dag graph;
    bt_dag_storage *storages; // owned [storage_count], oldest first
    int storage_count, storage_capacity;
    bool keeps;            // copies of inputs
    bt_dag_source *inputs; // owned [input_capacity], by value
    int input_capacity;
    int lists; // of products launched as one list
    bt_dag_phase phase;
    char origin[32];
    bt_status status;
    char message[256]; // of status
} bt_dag_capture;

// `capture` must not move until bt_dag_capture_end. keeps_inputs: copies each input at its first
// read, so that the graph can be run on it later.
// Errors  INVALID_ARGUMENT if the context's kernels or trace already have a listener
BT_CHECKED bt_status bt_dag_capture_begin(bt_context *context, bool keeps_inputs,
                                          bt_dag_capture *capture);
// Marks the tensor's current contents as an output. The output is the whole storage.
// Errors  INVALID_ARGUMENT if no captured node wrote or read it
BT_CHECKED bt_status bt_dag_capture_output(bt_dag_capture *capture, const bt_tensor *tensor);
// The value that the tensor's storage holds now; -1 if none was captured. *offset: the tensor's.
int bt_dag_capture_value(const bt_dag_capture *capture, const bt_tensor *tensor,
                         int64_t *offset_bytes);
// The input's memory: the copy if the capture keeps inputs, else the address at the first read;
// NULL for other values.
void *bt_dag_capture_input(const bt_dag_capture *capture, int value);
// A tensor of the input's storage; NULL as in bt_dag_source. Borrowed.
bt_tensor *bt_dag_capture_source(const bt_dag_capture *capture, int value);
// Stops listening and moves the graph to *graph; bt_dag_capture_input and the like work until
// *capture is released.
// Owns    the caller owns *graph, {0} after a failure
// Errors  the first one while recording: INVALID_ARGUMENT naming kernel and operand, OUT_OF_MEMORY
BT_CHECKED bt_status bt_dag_capture_end(bt_dag_capture *capture, bt_dag *graph);
void bt_dag_capture_release(bt_dag_capture *capture);

#endif
