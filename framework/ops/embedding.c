// framework/ops/embedding.c - rows of a table, plus a row per position; ids outside of the table
#include "framework/ops/ops.h"

// inputs ids [B, T], table [V, C], position [P, C]; outputs y [B, T, C], bad_row [1]
// saved  ids, 0 where the table has no such row: the backward must not write outside of it
enum { EMBEDDING_IDS, EMBEDDING_TABLE, EMBEDDING_POSITION };

bt_status bt_op_embedding_infer(bt_op_call *call)
{
    const bt_tensor *ids = call->in[EMBEDDING_IDS];
    const bt_tensor *table = call->in[EMBEDDING_TABLE];
    const bt_tensor *position = call->in[EMBEDDING_POSITION];
    BT_TRY(bt_tensor_expect(ids, BT_I32, "input 0"));
    BT_TRY(bt_op_expect_float(call, EMBEDDING_TABLE));
    if (ids->shape.rank != 2 || table->shape.rank != 2) {
        return bt_op_mismatch(call, EMBEDDING_IDS, EMBEDDING_TABLE);
    }
    if (position) {
        BT_TRY(bt_op_expect_float(call, EMBEDDING_POSITION));
        if (position->dtype != table->dtype || position->shape.rank != 2 ||
            position->shape.size[1] != table->shape.size[1] ||
            position->shape.size[0] < ids->shape.size[1]) {
            return bt_op_mismatch(call, EMBEDDING_IDS, EMBEDDING_POSITION);
        }
    }
    if (table->shape.size[0] == 0 && bt_tensor_count(ids) > 0) {
        return bt_op_mismatch(call, EMBEDDING_IDS, EMBEDDING_TABLE);
    }
    call->out_spec[0] = (bt_op_spec){
        table->dtype, BT_SHAPE(ids->shape.size[0], ids->shape.size[1], table->shape.size[1])};
    call->out_spec[1] = (bt_op_spec){BT_I64, BT_SHAPE(1)};
    return BT_OK;
}

bt_status bt_op_embedding_forward(bt_context *context, bt_op_call *call)
{
    bt_tensor *ids = call->in[EMBEDDING_IDS];
    bt_tensor *table = call->in[EMBEDDING_TABLE];
    bt_tensor *position = call->in[EMBEDDING_POSITION];
    bt_tensor **good = &call->saved[0];
    if (call->recording) {
        BT_TRY(bt_tensor_create(context, BT_I32, ids->shape, "ids", good));
    }
    bt_embedding_args args = {.ids = bt_tensor_data(ids),
                              .table = bt_tensor_data(table),
                              .position = position ? bt_tensor_data(position) : NULL,
                              .y = bt_tensor_data(call->out[0]),
                              .rows = bt_tensor_count(ids),
                              .cols = table->shape.size[1],
                              .vocab = table->shape.size[0],
                              .positions = ids->shape.size[1],
                              .dtype = table->dtype,
                              .good_ids = *good ? bt_tensor_data(*good) : NULL,
                              .bad_row = bt_tensor_data(call->out[1])};
    BT_TRY(bt_context_launch(context, BT_KERNEL_EMBEDDING, table->dtype, &args));
    return context->anomaly ? bt_check_ids(context, ids, args.vocab, call->out[1]) : BT_OK;
}

// If the position table is longer than the sequence, the rest of its new gradient is zero.
static bt_status position_target(bt_context *context, bt_op_backward *call, int64_t positions,
                                 bt_tensor **out, bool *accumulate)
{
    bt_grad *din = &call->din[EMBEDDING_POSITION];
    *accumulate = din->accumulate;
    BT_TRY(bt_grad_target(context, call, EMBEDDING_POSITION, out));
    if (!*accumulate && din->spec.shape.size[0] > positions) {
        *accumulate = true;
        return bt_tensor_fill(context, *out, 0);
    }
    return BT_OK;
}

bt_status bt_op_embedding_backward(bt_context *context, bt_op_backward *call)
{
    bt_tensor *ids = call->saved[0];
    bt_tensor *dy = call->dout[0];
    bt_tensor *dtable = NULL;
    bt_tensor *dposition = NULL;
    bt_tensor *scratch = NULL;
    bool accumulate = call->din[EMBEDDING_TABLE].accumulate;
    bool accumulate_position = false;
    const bt_op_spec table = call->din[EMBEDDING_TABLE].spec;
    if (call->din[EMBEDDING_TABLE].wanted) {
        BT_TRY(bt_grad_target(context, call, EMBEDDING_TABLE, &dtable));
    } else {
        BT_TRY(bt_tensor_create(context, table.dtype, table.shape, "gradient", &scratch));
        dtable = scratch;
    }
    bt_status status = BT_OK;
    if (call->din[EMBEDDING_POSITION].wanted) {
        status =
            position_target(context, call, ids->shape.size[1], &dposition, &accumulate_position);
    }
    if (status == BT_OK) {
        bt_embedding_backward_args args = {.ids = bt_tensor_data(ids),
                                           .dy = bt_tensor_data(dy),
                                           .dtable = bt_tensor_data(dtable),
                                           .dposition =
                                               dposition ? bt_tensor_data(dposition) : NULL,
                                           .rows = bt_tensor_count(ids),
                                           .cols = table.shape.size[1],
                                           .vocab = table.shape.size[0],
                                           .positions = ids->shape.size[1],
                                           .accumulate = accumulate,
                                           .accumulate_position = accumulate_position,
                                           .dtype = dy->dtype,
                                           .grad_dtype = dtable->dtype};
        status = bt_context_launch(context, BT_KERNEL_EMBEDDING_BACKWARD, dy->dtype, &args);
    }
    bt_tensor_release(scratch);
    return status;
}

bt_status bt_embedding(bt_context *context, bt_tensor *ids, bt_tensor *table, bt_tensor *position,
                       bt_tensor **out, bt_tensor **bad_row)
{
    bt_tensor *in[] = {ids, table, position};
    bt_tensor *outputs[2];
    bt_status status = bt_op_apply(context, BT_OP_EMBEDDING, NULL, in, 3, outputs);
    *out = outputs[0];
    if (bad_row) {
        *bad_row = outputs[1];
    } else {
        bt_tensor_release(outputs[1]);
    }
    return status;
}

bt_status bt_check_ids(bt_context *context, bt_tensor *ids, int64_t vocab, bt_tensor *bad_row)
{
    int64_t row = 0, rest = 0, offset = 0;
    int32_t id = 0;
    bt_tensor *element = NULL;
    char place[BT_SHAPE_TEXT_BYTES];
    BT_TRY(bt_tensor_read(context, bad_row, &row));
    if (row < 0) {
        return BT_OK;
    }
    bt_shape at = {.rank = ids->shape.rank};
    rest = row;
    for (int i = at.rank - 1; i >= 0; --i) {
        at.size[i] = rest % ids->shape.size[i];
        rest /= ids->shape.size[i];
        offset += at.size[i] * ids->stride[i];
    }
    BT_TRY(bt_tensor_view(ids, BT_SHAPE(1), (int64_t[]){1}, offset, &element));
    bt_status status = bt_tensor_read(context, element, &id);
    bt_tensor_release(element);
    BT_TRY(status);
    return bt_error(BT_STATUS_INVALID_ARGUMENT, "\"%s\": id %lld at %s, allowed 0 to %lld",
                    ids->name, (long long)id, bt_shape_text(&at, place), (long long)vocab - 1);
}
