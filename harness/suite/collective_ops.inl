// harness/suite/collective_ops.inl - the operations of collective cases, one row each
//   BT_COLLECTIVE_CASE_OP(name, factor)
// Bus bytes are the size of a case times the factor, an expression in n, the number of ranks: the
// bytes that each rank must send over its link, so that bus bandwidth is comparable across numbers
// of ranks. The size is that of the largest operand of a rank.
BT_COLLECTIVE_CASE_OP(all_reduce, 2 * (n - 1) / n)
BT_COLLECTIVE_CASE_OP(reduce_scatter, (n - 1) / n)
BT_COLLECTIVE_CASE_OP(all_gather, (n - 1) / n)
BT_COLLECTIVE_CASE_OP(all_to_all, (n - 1) / n)
BT_COLLECTIVE_CASE_OP(broadcast, 1)
BT_COLLECTIVE_CASE_OP(send_recv, 1)
