// tests/unit/test_embedding.c - ids that are not in the table
#include <math.h>
#include <stdlib.h>

#include "tests/support/fixture.h"
#include "tests/support/test.h"

enum { BATCH = 2, TOKENS = 4, VOCAB = 8, COLS = 3, ROWS = BATCH * TOKENS };

typedef struct bad_case {
    int row;
    int32_t id;
    const char *message;
} bad_case;

static const bad_case cases[] = {
    {7, 9, "\"ids\": id 9 at [1, 3], allowed 0 to 7"},
    {0, VOCAB, "\"ids\": id 8 at [0, 0], allowed 0 to 7"},
    {5, -1, "\"ids\": id -1 at [1, 1], allowed 0 to 7"},
    {2, 1 << 30, "\"ids\": id 1073741824 at [0, 2], allowed 0 to 7"},
    {-1, 0, NULL},
};
static const bt_dtype dtypes[] = {BT_F64, BT_F32, BT_BF16};

typedef struct setting {
    fixture f;
    const bad_case *c;
    int32_t values[ROWS];
    bt_tensor *ids, *table, *position, *y, *bad_row;
} setting;

static bt_status look_up(setting *s, const bad_case *c, bt_dtype dtype)
{
    double rows[VOCAB * COLS];
    for (int i = 0; i < VOCAB * COLS; ++i) {
        rows[i] = i;
    }
    for (int r = 0; r < ROWS; ++r) {
        s->values[r] = r == c->row ? c->id : (r * 5) % VOCAB;
    }
    s->ids = fixture_values(&s->f, BT_I32, BT_SHAPE(BATCH, TOKENS), s->values);
    s->ids->name = "ids";
    s->table = fixture_doubles(&s->f, dtype, BT_SHAPE(VOCAB, COLS), rows);
    s->position = fixture_doubles(&s->f, dtype, BT_SHAPE(TOKENS, COLS), rows);
    s->table->requires_grad = s->position->requires_grad = true;
    return bt_embedding(&s->f.context, s->ids, s->table, s->position, &s->y, &s->bad_row);
}

static void release(setting *s)
{
    bt_tensor *all[] = {s->ids, s->table, s->position, s->y, s->bad_row};
    for (int i = 0; i < 5; ++i) {
        bt_tensor_release(all[i]);
    }
    fixture_close(&s->f);
}

static void check_values(setting *s, const bad_case *c)
{
    double *y = fixture_read(&s->f, s->y);
    for (int r = 0; r < ROWS; ++r) {
        for (int k = 0; k < COLS; ++k) {
            const double expected = s->values[r] * COLS + k + r % TOKENS * COLS + k;
            assert_true(r == c->row ? isnan(y[r * COLS + k]) : y[r * COLS + k] == expected);
        }
    }
    free(y);
}

// The row of a bad id is NaN, and nothing outside of the table is read or written.
static void a_bad_id_is_reported(void **state)
{
    (void)state;
    for (int i = 0; i < 15; ++i) {
        const bad_case *c = &cases[i / 3];
        setting s = {.c = c};
        int64_t row = 5;
        fixture_open(&s.f, 0);
        ASSERT_OK(look_up(&s, c, dtypes[i % 3]));
        check_values(&s, c);
        ASSERT_OK(bt_tensor_read(&s.f.context, s.bad_row, &row));
        assert_int_equal(row, c->row);
        if (c->message) {
            ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, c->message,
                         bt_check_ids(&s.f.context, s.ids, VOCAB, s.bad_row));
        } else {
            ASSERT_OK(bt_check_ids(&s.f.context, s.ids, VOCAB, s.bad_row));
        }
        bt_tensor *seed = NULL;
        ASSERT_OK(bt_tensor_create(&s.f.context, s.y->dtype, s.y->shape, "seed", &seed));
        ASSERT_OK(bt_tensor_fill(&s.f.context, seed, 1));
        ASSERT_OK(bt_tensor_fill(&s.f.context, s.ids, 77)); // copied for the backward
        ASSERT_OK(bt_backward(&s.f.context, s.y, seed));
        double *grad = fixture_read(&s.f, s.table->grad);
        double sum = 0;
        for (int k = 0; k < VOCAB * COLS; ++k) {
            sum += grad[k];
        }
        assert_true(sum == ROWS * COLS);
        free(grad);
        bt_tensor_release(seed);
        release(&s);
    }
}

static void anomaly_mode_makes_an_error_of_it(void **state)
{
    (void)state;
    setting s = {0};
    fixture_open(&s.f, 0);
    s.f.context.anomaly = true;
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "embedding: \"ids\": id 9 at [1, 3], allowed 0 to 7",
                 look_up(&s, &cases[0], BT_F32));
    assert_null(s.y);
    release(&s);
}

static void a_bad_target_is_named_too(void **state)
{
    (void)state;
    for (int anomaly = 0; anomaly < 2; ++anomaly) {
        fixture f;
        const int32_t values[] = {1, 4, -100, 5};
        bt_tensor *loss = NULL, *bad_row = NULL;
        fixture_open(&f, 0);
        bt_tensor *logits = fixture_random(&f, BT_F32, BT_SHAPE(4, 5), -1, 1, 1);
        bt_tensor *targets = fixture_values(&f, BT_I32, BT_SHAPE(4), values);
        targets->name = "targets";
        f.context.anomaly = anomaly;
        bt_status status =
            bt_cross_entropy(&f.context, logits, targets, -100, false, &loss, &bad_row);
        status = anomaly ? status : bt_check_ids(&f.context, targets, 5, bad_row);
        ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "\"targets\": id 5 at [3], allowed 0 to 4",
                     status);
        bt_tensor *all[] = {logits, targets, loss, bad_row};
        for (int i = 0; i < 4; ++i) {
            bt_tensor_release(all[i]);
        }
        fixture_close(&f);
    }
}

static void an_empty_table_is_refused(void **state)
{
    (void)state;
    fixture f;
    bt_tensor *table = NULL, *ids = NULL, *y = NULL;
    fixture_open(&f, 0);
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_F32, BT_SHAPE(0, 3), "table", &table));
    ASSERT_OK(bt_tensor_zeros(&f.context, BT_I32, BT_SHAPE(1, 2), "ids", &ids));
    ASSERT_FAILS(BT_STATUS_INVALID_ARGUMENT, "does not fit",
                 bt_embedding(&f.context, ids, table, NULL, &y, NULL));
    assert_null(y);
    bt_tensor_release(table);
    bt_tensor_release(ids);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_id_is_reported),
        cmocka_unit_test(anomaly_mode_makes_an_error_of_it),
        cmocka_unit_test(a_bad_target_is_named_too),
        cmocka_unit_test(an_empty_table_is_refused),
    };
    return cmocka_run_group_tests_name("embedding", tests, NULL, NULL);
}
