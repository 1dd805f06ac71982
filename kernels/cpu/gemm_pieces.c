// kernels/cpu/gemm_pieces.c - a product in pieces of its rows: one after another
//
// A stream runs in order here, so a piece that is not ready never will be: an error.
#include "kernels/cpu/cpu.h"

static int64_t rows_of(const bt_gemm_pieces_args *args) { return args->product.m / args->pieces; }

static bool is_own(const bt_gemm_pieces_args *args, int64_t piece)
{
    return piece >= args->own_first && piece < args->own_first + args->own_count;
}

static bt_gemm_args piece_of(const bt_gemm_pieces_args *args, int64_t piece)
{
    const int64_t rows = rows_of(args), first = piece * rows;
    const int64_t size = (int64_t)bt_dtype_size(args->product.ab_dtype);
    const int64_t d_size = (int64_t)bt_dtype_size(args->product.d_dtype);
    const int64_t from = is_own(args, piece) ? first - args->own_first * rows : first;
    bt_gemm_args product = args->product;
    product.m = rows;
    product.a =
        (const char *)(is_own(args, piece) ? args->own : product.a) + from * product.lda * size;
    product.c = product.c ? (const char *)product.c + first * product.ldc * d_size : NULL;
    product.d = (char *)product.d + first * product.ldd * d_size;
    product.aux = product.aux ? (char *)product.aux + first * product.ldd * d_size : NULL;
    return product;
}

static const bt_kernel *row_of(const bt_device *device, const bt_gemm_pieces_args *args)
{
    const bt_gemm_args product = piece_of(args, 0);
    return bt_kernel_lookup(device, BT_KERNEL_GEMM, product.ab_dtype, &product);
}

bool bt_gemm_pieces_cpu_accepts(const bt_device *device, const void *call)
{
    const bt_gemm_pieces_args *args = call;
    return args->pieces > 0 && args->product.m % args->pieces == 0 && args->product.batch == 1 &&
           !args->product.trans_a && !args->product.dbias && row_of(device, args) != NULL;
}

size_t bt_gemm_pieces_cpu_workspace(const bt_device *device, const void *call)
{
    const bt_gemm_args product = piece_of(call, 0);
    const bt_kernel *row = row_of(device, call);
    return row && row->workspace ? row->workspace(device, &product) : 0;
}

bt_status bt_gemm_pieces_cpu(const bt_launch *launch, const void *call)
{
    const bt_gemm_pieces_args *args = call;
    for (int64_t i = 0; i < args->pieces; ++i) {
        const int64_t piece = (args->first + i) % args->pieces;
        const bt_gemm_args product = piece_of(args, piece);
        const bt_kernel *row = NULL;
        if (args->ready && !is_own(args, piece) && args->ready[piece] == 0) {
            return bt_error(BT_STATUS_INVALID_ARGUMENT, "gemm_pieces: piece %lld is not ready",
                            (long long)piece);
        }
        BT_TRY(bt_kernel_find(launch->device, BT_KERNEL_GEMM, product.ab_dtype, &product, &row));
        BT_TRY(row->launch(launch, &product));
        if (args->done && !is_own(args, piece)) {
            args->done[piece] = 1;
        }
    }
    for (int64_t i = 0; args->ready && i < args->pieces; ++i) {
        args->ready[i] = 0;
    }
    return BT_OK;
}
