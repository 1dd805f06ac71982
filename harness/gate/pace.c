// harness/gate/pace.c - the number of rounds that a case needs
#include "harness/gate/pace.h"

int64_t bt_gate_pace_rounds(const bt_gate_pace *pace)
{
    const bt_gate_side *base = pace->base;
    const bt_decision_rule decision = bt_gate_decision_rule(pace->policy, 0, 1);
    int64_t rounds = decision.looks[0], session = 0;
    for (int64_t i = 0; base && i < base->round_count; ++i) {
        bool same = i > 0 && base->rounds[i].session == base->rounds[i - 1].session;
        session = same ? session + 1 : 1;
        rounds = session > rounds ? session : rounds;
    }
    return rounds < pace->policy->rounds ? rounds : pace->policy->rounds;
}
