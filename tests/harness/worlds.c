// tests/harness/worlds.c - random numbers, rounds and steps
#include "tests/harness/worlds.h"

#include <math.h>
#include <string.h>

#define STEP_NS   1e7
#define ROUND_SD  0.003
#define STEP_SD   0.01
#define TWO_PI    6.283185307179586
#define T3_SD     1.7320508075688772 // of Student's t with 3 degrees of freedom
#define TO_UNIT   0x1p-53
#define AR_SPREAD 4 // the sd of an autocorrelated machine, in sds of a round

// splitmix64: a million rounds need a hundred million numbers.
static double uniform(world_case *self)
{
    uint64_t bits = self->state += 0x9e3779b97f4a7c15ULL;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return ((double)((bits ^ (bits >> 31)) >> 11) + 0.5) * TO_UNIT;
}

static double normal(world_case *self)
{
    double out = self->spare;
    if (!isnan(out)) {
        self->spare = (double)NAN;
        return out;
    }
    double radius = sqrt(-2 * log(uniform(self))), angle = TWO_PI * uniform(self);
    self->spare = radius * sin(angle);
    return radius * cos(angle);
}

static double student3(world_case *self)
{
    double a = normal(self), b = normal(self), c = normal(self);
    return normal(self) / sqrt((a * a + b * b + c * c) / 3) / T3_SD;
}

static bool happens(world_case *self, double share) { return share > 0 && uniform(self) < share; }

// Where the machine is in this round, for either side.
static double machine(world_case *self)
{
    const world *of = self->of;
    double sd = of->round > 0 ? of->round : ROUND_SD;
    double level = self->session + self->card;
    level += sd * (of->tails ? student3(self) : normal(self));
    level += of->drift * (double)self->run.round_count / (2 * WORLD_PAIRS);
    self->walk += of->walk * normal(self);
    if (of->rho > 0) {
        double innovation = AR_SPREAD * sd * sqrt(1 - of->rho * of->rho);
        self->ar = of->rho * self->ar + innovation * normal(self);
    }
    level += self->walk + self->ar;
    level += happens(self, of->gap > 0 ? 0.5 : 0) ? of->gap : 0;
    return level + (happens(self, of->stalls) ? log1p(of->stalled) : 0);
}

static void add_round(world_case *self, const char *system, bool candidate, int64_t ordinal)
{
    const world *of = self->of;
    bt_store_step *steps = self->steps[self->run.round_count];
    bt_store_round *round = &self->rounds[self->run.round_count];
    double level = machine(self);
    if (candidate) {
        level += log1p(of->slower) + (happens(self, of->bad_share) ? log1p(of->bad) : 0);
    }
    for (int64_t i = 0; i < WORLD_STEPS; ++i) {
        double step = level + STEP_SD * normal(self);
        step += candidate && happens(self, of->step_share) ? log1p(of->steps) : 0;
        steps[i] =
            (bt_store_step){.step = i, .tokens = 512, .host_ns = (int64_t)(STEP_NS * exp(step))};
    }
    *round = (bt_store_round){.id = self->run.round_count + 1,
                              .ordinal = ordinal,
                              .what = {"worlds", "train", "case", "{}", system},
                              .shape = {.device = "simulated", .precision = "fp32", .dataset = ""},
                              .status = BT_RUN_PASSED,
                              .message = "",
                              .params_digest = "",
                              .label = "",
                              .steps = steps,
                              .step_count = WORLD_STEPS};
    ++self->run.round_count;
}

// Another day: what wandered is somewhere else.
static void restart(world_case *self)
{
    const world *of = self->of;
    double sd = of->round > 0 ? of->round : ROUND_SD;
    self->walk = 0;
    self->ar = of->rho > 0 ? AR_SPREAD * sd * normal(self) : 0;
}

void world_case_begin(world_case *self, const world *of, uint64_t seed)
{
    self->of = of;
    self->state = seed * 0xd1342543de82ef95ULL + 1;
    self->spare = (double)NAN;
    self->run = (bt_store_run){
        .info = {.suite = {"plan", "worlds", "cpu", "worlds.json", "{}"}, .env = {"env", NULL, 0}},
        .status = BT_RUN_PASSED,
        .message = "",
        .rounds = self->rounds};
    self->session = of->session * normal(self);
    self->card = of->card * normal(self);
    restart(self);
}

void world_case_pairs(world_case *self, int64_t pairs)
{
    for (int64_t i = self->run.round_count / 2; i < pairs; ++i) {
        bool swapped = i % 2;
        add_round(self, swapped ? "candidate" : "base", swapped, i);
        add_round(self, swapped ? "base" : "candidate", !swapped, i);
    }
}

void world_case_session(world_case *self, const char *system, int64_t rounds, bool other_card)
{
    bool candidate = strcmp(system, "candidate") == 0;
    self->session = self->of->session * normal(self);
    self->card = other_card ? self->of->card * normal(self) : self->card;
    restart(self);
    for (int64_t i = 0; i < rounds; ++i) {
        add_round(self, system, candidate, i);
    }
}

double world_round_mean(const bt_store_round *round)
{
    double sum = 0;
    for (int64_t i = 0; i < round->step_count; ++i) {
        sum += (double)round->steps[i].host_ns;
    }
    return sum / (double)round->step_count;
}
