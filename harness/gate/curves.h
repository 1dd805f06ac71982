// harness/gate/curves.h - loss curves in a baseline's document; private to this folder
//
// A curve is a list of float32. Its bits are combined by XOR with those of the side's first curve
// of the same length (the first: with the step before), split into four byte planes, compressed
// with zstd and written as base64 (the variant without '/'). Curves of one seed share most high
// bytes, so they take a fraction of their hexadecimal form, which older documents have.
#ifndef BT_HARNESS_GATE_CURVES_H
#define BT_HARNESS_GATE_CURVES_H

#include "harness/gate/document.h"

#define BT_GATE_STEPS_MAX 2000000 // of a curve

// Member "losses": for each different curve its steps, the packed bits, the tokens of a step, the
// digest of the parameters, the number of rounds that had it; "of" if it is not of the side's own
// rounds: "permuted" (same seed and data), "seed" (another seed).
// Errors  UNSUPPORTED (steps that do not count from 0 without a gap)
BT_CHECKED bt_status bt_document_write_curves(const bt_gate_side *side, bt_json_writer *json);
// The reverse, from an object with the member, which may be missing. Also reads "bits" in
// hexadecimal, 8 digits per step, without "steps".
BT_CHECKED bt_status bt_document_read_curves(bt_document *in, const cJSON *object,
                                             bt_gate_side *out);

#endif
