// harness/gate/card.h - identifies the card of a run without its serial number
//
// Two cards of one model may differ by 1 % and more, so a verdict against a baseline needs the same
// card. A UUID identifies the machine and is not published; its digest may be.
#ifndef BT_HARNESS_GATE_CARD_H
#define BT_HARNESS_GATE_CARD_H

#include "harness/record/record.h"

// 32 hex digits of SHA-256 over the fact gpu.uuid; "" if it is unknown or was removed.
void bt_gate_card(const bt_store_env *env, char digest[33]);
// Whether both environments have the same card; without a GPU on either side they do.
// base_card  as bt_gate_card made it
bool bt_gate_same_card(const bt_store_env *base, const char *base_card, const bt_store_env *env);

#endif
