// harness/gate/digest.h - XXH3-128 of a text, as the record writes digests everywhere
#ifndef BT_HARNESS_GATE_DIGEST_H
#define BT_HARNESS_GATE_DIGEST_H

// 32 lower-case hex digits and a terminator.
void bt_gate_digest(const char *text, char digest[33]);

#endif
