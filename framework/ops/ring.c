// framework/ops/ring.c - the attention calls of a rank on the keys of another rank
#include "framework/ops/ring.h"

int64_t bt_ring_chunk(int64_t tokens, int size, int chunk)
{
    const int64_t chunks = 2 * (int64_t)size; // the product below may not overflow
    return tokens / chunks * chunk + tokens % chunks * chunk / chunks;
}

static int64_t length(int64_t tokens, int size, int chunk)
{
    return bt_ring_chunk(tokens, size, chunk + 1) - bt_ring_chunk(tokens, size, chunk);
}

int64_t bt_ring_low(int64_t tokens, int size, int rank) { return length(tokens, size, rank); }

int64_t bt_ring_high(int64_t tokens, int size, int rank)
{
    return length(tokens, size, 2 * size - 1 - rank);
}

// The two chunks of a rank.
typedef struct held {
    int64_t start[2], count[2]; // in the sequence
    int64_t place[2];           // among the rank's tokens
} held;

static held held_by(int64_t tokens, int size, int rank)
{
    held h = {.count = {bt_ring_low(tokens, size, rank), bt_ring_high(tokens, size, rank)}};
    h.start[0] = bt_ring_chunk(tokens, size, rank);
    h.start[1] = bt_ring_chunk(tokens, size, 2 * size - 1 - rank);
    h.place[1] = h.count[0];
    return h;
}

// Chunk a of the queries against chunk b of the keys.
static bt_ring_visit pair(const bt_ring_mask *mask, const held *q, int a, const held *k, int b)
{
    return (bt_ring_visit){.q_begin = q->place[a],
                           .q_count = q->count[a],
                           .k_begin = k->place[b],
                           .k_count = k->count[b],
                           .q_first = q->start[a] - k->start[b],
                           .window = mask->window,
                           .causal = mask->causal};
}

// Whether any query of the pair sees a key: the nearest two are `gap` tokens apart.
static bool meets(const bt_ring_mask *mask, const bt_ring_visit *v)
{
    const int64_t ahead = v->q_first - (v->k_count - 1), behind = -v->q_first - (v->q_count - 1);
    const int64_t gap = ahead > behind ? ahead : behind;
    return !(mask->causal && v->q_first + v->q_count <= 0) &&
           (mask->window == 0 || gap < mask->window);
}

static int add(bt_ring_visit *out, int count, bt_ring_visit visit)
{
    if (visit.q_count > 0 && visit.k_count > 0) {
        out[count++] = visit;
    }
    return count;
}

// All queries of chunks [a, a + chunks_a) see all keys of chunks [b, b + chunks_b).
static int add_full(const bt_ring_mask *mask, const held *q, int a, int chunks_a, const held *k,
                    int b, int chunks_b, bt_ring_visit *out)
{
    int count = 0;
    if (!mask->square) {
        bt_ring_visit all = {.q_begin = q->place[a], .k_begin = k->place[b]};
        for (int i = 0; i < chunks_a; ++i) {
            all.q_count += q->count[a + i];
        }
        for (int i = 0; i < chunks_b; ++i) {
            all.k_count += k->count[b + i];
        }
        return add(out, count, all);
    }
    for (int i = 0; i < chunks_a; ++i) {
        for (int j = 0; j < chunks_b; ++j) {
            bt_ring_visit visit = pair(mask, q, a + i, k, b + j);
            visit.q_first = 0;
            visit.causal = false;
            count = add(out, count, visit);
        }
    }
    return count;
}

int bt_ring_visits(const bt_ring_mask *mask, int size, int queries, int keys, bt_ring_visit *out)
{
    const held q = held_by(mask->tokens, size, queries), k = held_by(mask->tokens, size, keys);
    const int64_t own = q.count[0] + q.count[1];
    int count = 0;
    if (mask->window > 0) {
        for (int i = 0; i < BT_RING_VISITS; ++i) {
            const bt_ring_visit visit = pair(mask, &q, i / 2, &k, i % 2);
            count = meets(mask, &visit) ? add(out, count, visit) : count;
        }
        return count;
    }
    if (!mask->causal) {
        return add_full(mask, &q, 0, 2, &k, 0, 2, out);
    }
    if (queries == keys) { // the second chunk follows the first directly: plain causal attention
        return add(out, 0, (bt_ring_visit){.q_count = own, .k_count = own, .causal = true});
    }
    // A lower rank's first chunk precedes all tokens of this one, its second chunk follows them;
    // both chunks of a higher rank precede this rank's second one and follow the first.
    return keys < queries ? add_full(mask, &q, 0, 2, &k, 0, 1, out)
                          : add_full(mask, &q, 1, 1, &k, 0, 2, out);
}
