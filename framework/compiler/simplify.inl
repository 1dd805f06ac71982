// framework/compiler/simplify.inl - rules that keep the bits, tried in this order on each node
//
// Include after defining BT_DAG_RULE(name, text). simplify.c has a function of that name.
BT_DAG_RULE(identity_function, "1 x, x - 0 and dropout of nothing are x")
BT_DAG_RULE(inverse_function, "-(-x) is x")
BT_DAG_RULE(identity_operand, "x 1, x / 1 and x - 0 are x where the constant broadcasts")
BT_DAG_RULE(constant_operand, "an operand that is one constant becomes an attribute: x c, x + c")
BT_DAG_RULE(constant_result, "exact arithmetic on constants is evaluated")
BT_DAG_RULE(identity_copy, "a contiguous copy of the same type is its source")
BT_DAG_RULE(narrow_after_widen, "a cast back from a wider type is the source")
BT_DAG_RULE(copy_of_copy, "a copy of a copy reads the first one's source")
BT_DAG_RULE(operand_layout, "a binary op reads through a transpose or broadcast itself")
BT_DAG_RULE(function_before_broadcast, "a function is applied before its operand is broadcast")
BT_DAG_RULE(function_before_widen, "an exact function is applied before its operand is widened")
BT_DAG_RULE(common_call, "equal calls of equal operands are merged")
BT_DAG_RULE(dead_call, "a call whose results are not read is removed")
