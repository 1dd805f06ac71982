// kernels/cuda/collective/collective.h - the parts of the table that entry.cu puts together
#ifndef BT_KERNELS_CUDA_COLLECTIVE_COLLECTIVE_H
#define BT_KERNELS_CUDA_COLLECTIVE_COLLECTIVE_H

#include "kernels/collectives.h"
#include "kernels/cuda/cuda.h"

void bt_collective_window_table(bt_device_collectives *table); // window.cu
void bt_collective_nccl_table(bt_device_collectives *table);   // nccl.cu
bt_status bt_p2p_sum_launch(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                            const bt_p2p_sum *args);
bt_status bt_p2p_fold_launch(bt_device *device, bt_stream stream, const bt_p2p_sum *args);
bt_status bt_p2p_small_sum_launch(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                                  const bt_p2p_small_sum *args);
bt_status bt_p2p_push_launch(bt_device *device, bt_stream stream, const bt_p2p_view *view,
                             const bt_p2p_push *args);

#endif
