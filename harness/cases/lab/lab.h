// harness/cases/lab/lab.h - declarations shared by the files of the kernel laboratory; private
//
// A work is one call, of a kernel case or of a group of products, over several sets of operands. A
// candidate is a way to compute it: a row of the kernel table, with one of the row's plans.
#ifndef BT_HARNESS_CASES_LAB_LAB_H
#define BT_HARNESS_CASES_LAB_LAB_H

#include "harness/cases/kernel.h"

enum {
    LAB_COPIES_MOST = 64,
    LAB_MEMBERS_MOST = 8, // products of a group
    LAB_VIEWS_MOST = 5,
    LAB_PLANS_MOST = 96, // of a row
    LAB_CANDIDATES_MOST = 512,
    LAB_SAMPLES_MOST = 1001
};

typedef enum lab_mode {
    LAB_COLD,    // a scrub of twice the cache by reading before each sample
    LAB_DIRTY,   // the same by writing: the sample includes the write-back, as many benchmarks have
                 // it
    LAB_GRAPH,   // consecutive calls over rotating operands, as one graph where there are graphs
    LAB_SUSTAIN, // the same of one candidate alone, after as many that the card's clock has settled
    LAB_MODES
} lab_mode;

// What restricts calls of attention; 0: nothing.
typedef struct lab_attention {
    int kv_heads, q_tokens, window, documents;
} lab_attention;

typedef struct lab_options {
    bool mode[LAB_MODES];
    bool chosen; // the modes are the user's: also graphs of large calls
    bool once;   // one launch of each candidate, nothing else
    int check;   // 1: also the large calls
    int add;     // 1: gradients are accumulated; nothing is checked
    int columns; // 1: products make sums of columns, too
    int group;   // 1: the products of all cases as one call
    int plans;   // of each tile of a row, the best by its model first; 0: the row's own choice
    int samples, rest_ms;
    lab_attention attention;
    char *const *words; // [word_count], parts of candidates' names, of which one must occur; 0: all
    int word_count;
} lab_options;

// The device as it is opened with a value of BT_GEMM.
typedef struct lab_view {
    bt_device device;
    char gemm[16]; // "": as the environment has it
} lab_view;

typedef struct lab {
    lab_options options;
    lab_view views[LAB_VIEWS_MOST]; // the first one owns memory, stream and events
    int view_count;
    bt_device *device; // of the first view
    bt_pool *pool;
    bt_stream stream;
    bt_event start, stop;
    void *scrub;
    size_t scrub_bytes;
    double ceiling; // bytes per ns of a large copy, on the CPU of STREAM's triad; 0: unknown
    bool wrong;     // a result was
} lab;

typedef struct lab_work {
    kernel_run members[LAB_MEMBERS_MOST]; // one, or the products of a group
    int member_count;
    bool grouped;
    int64_t copies; // sets of operands
    bt_gemm_args products[LAB_COPIES_MOST][LAB_MEMBERS_MOST];
    bt_gemm_grouped_args groups[LAB_COPIES_MOST];
    void *workspace; // of the pool: enough for every candidate
    void *extra;     // of the pool: starts of documents, or sums of columns; NULL: none
    bool restricted; // it is not the case's own call
    uint64_t operand_bytes;
    double bytes, flops; // what the operation must move and compute
} lab_work;

typedef struct lab_candidate {
    char name[112];
    bt_device *device;    // of a view, borrowed
    const bt_kernel *row; // NULL: the members one after the other, by the rows that serve them
    bt_kernel_plan plan;
    bool serves; // it is what the product would take
    bt_graph graph;
    double error_share; // of the tolerance; negative: not checked
    double *samples;    // owned, [LAB_MODES][samples], ns per call
} lab_candidate;

// Ends the program with the error's message unless the status is OK.
void lab_require(bt_status status);

// ---- candidates.c ------------------------------------------------------------------------------

// Makes the call of one case, or of several as a group, over rotating operands.
// Owns    *out: the caller, lab_work_release
void lab_work_make(lab *self, const cJSON *const *items, int count, lab_work *out);
void lab_work_release(lab *self, lab_work *work);
// Lists the candidates, the one that serves the call first; returns their number. all: whatever
// words and plans are selected.
int lab_candidates(lab *self, lab_work *work, bool all, lab_candidate list[LAB_CANDIDATES_MOST]);
// One call over a set of operands. Errors  those of the kernel
BT_CHECKED bt_status lab_launch(lab *self, const lab_work *work, const lab_candidate *by,
                                int64_t copy);
// Launches once from fresh operands and compares the results. Errors  as bt_kernel_check
BT_CHECKED bt_status lab_check(lab *self, lab_work *work, lab_candidate *by);

// ---- attention.c -------------------------------------------------------------------------------

bool lab_is_attention(const lab_work *work);
// Makes the calls of a work what --kv-heads, --q-tokens, --window, --documents and --add ask for.
void lab_attention_restrict(lab *self, lab_work *work);

// ---- time.c ------------------------------------------------------------------------------------

// Fills the cache with other memory.
void lab_scrub(lab *self, bool by_writing);
// Takes samples of all candidates in the selected modes; the candidates take turns, in an order
// that is drawn anew for each round.
void lab_time(lab *self, const lab_work *work, lab_candidate *list, int count);
double lab_median(const lab *self, const lab_candidate *of, lab_mode mode);
// Whether a work is timed in a mode.
bool lab_has_mode(const lab *self, const lab_work *work, lab_mode mode);
// Bytes per ns of STREAM's triad on the CPU, the best of several passes over memory of the kind
// that the cases use.
double lab_triad(bt_device *device);

#endif
