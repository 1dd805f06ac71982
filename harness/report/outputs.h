// harness/report/outputs.h - who checked the outputs of kernel cases
#ifndef BT_HARNESS_REPORT_OUTPUTS_H
#define BT_HARNESS_REPORT_OUTPUTS_H

#include "framework/base/str.h"
#include "harness/record/record.h"

// "verified": the recorder compared the outputs that the peer returned. "self-reported": the peer's
// own check. "own": our worker, which runs the same check. "" for anything except a kernel case
// that passed.
const char *bt_outputs_of(const bt_store_round *round);

#define BT_OUTPUTS_SYSTEMS_MAX 16

// Number of rounds by system and by who checked them; systems above the capacity are omitted.
typedef struct bt_outputs {
    struct {
        const char *system; // borrowed
        int64_t verified, self_reported;
    } rows[BT_OUTPUTS_SYSTEMS_MAX];
    int count;
} bt_outputs;

void bt_outputs_note(bt_outputs *self, const bt_store_round *round);
// A sentence per peer, one per line: "pytorch-eager: outputs of 21 rounds verified by bt-bench, of
// 3 self-reported". Nothing without peers.
void bt_outputs_write(const bt_outputs *self, const char *bullet, bt_str *out);

#endif
