"""The operations of HyperKernels: inputs, what is launched, and the same in PyTorch's float64.

Launch configurations are those of the authors' own test program, the only ones that they published.
make(kernels, case) gives an Op; its inputs are drawn with the case's seed as the PyTorch peer's are.
"""
import ctypes
import math

import kernels as pytorch  # the PyTorch peer's: operations, clock, check
from protocol import Cannot

F32_EPSILON, HALF_WIDTH_EPSILON = 2.0 ** -23, 2.0 ** -10  # the latter: tf32, and an 11-bit tanh


class Op:
    """call() launches and fills `outputs`; right() gives them in float64; returned() gives what the
    harness compares, by default the outputs."""

    def __init__(self, case, name, inputs, outputs, call, right, epsilon=F32_EPSILON, returned=None):
        self.case, self.name, self.inputs, self.outputs = case, name, inputs, outputs
        self.call, self.right, self.epsilon = call, right, epsilon
        self.returned = returned or (lambda: outputs)

    def precision(self):
        """The one that it computes in, where that is less than the case's."""
        return "tf32" if self.epsilon == HALF_WIDTH_EPSILON and not self.case.tf32 else ""


def right_forward(function, inputs):
    return lambda: pytorch.as_list(function(*[x.double() for x in inputs]))


def right_backward(case, function, inputs, grads):
    return lambda: pytorch.evaluate(case, [x.double() for x in inputs], function,
                                    [g.double() for g in grads])


def int64(value):
    return ctypes.c_int64(value)


# ---- gelu ----------------------------------------------------------------------------------------

def gelu(kernels, case):
    inputs, function = pytorch.op_gelu(case)
    x, y = inputs[0], case.torch.empty_like(inputs[0])
    grid, count = (-(-x.numel() // 512),), int64(x.numel())
    if not case.backward:
        kernel = kernels.find("gelu_forward_sm89_kernel", "_Z24gelu_forward_sm89_kernelIfEvPKT_PS0_l")
        return Op(case, "gelu_forward_sm89_kernel, 11-bit tanh", inputs, [y],
                  lambda: kernels.launch(kernel, grid, (512,), (x, y, count)),
                  right_forward(function, inputs), HALF_WIDTH_EPSILON)
    kernel = kernels.find("gelu_backward_sm89_kernel",
                          "_ZN9OwnTensor4cuda25gelu_backward_sm89_kernelIfEEvPKT_S4_PS2_l")
    grads = pytorch.draw_grads(case, inputs, function)
    return Op(case, "gelu_backward_sm89_kernel, 11-bit tanh", inputs + grads, [y],
              lambda: kernels.launch(kernel, grid, (512,), (grads[0], x, y, count)),
              right_backward(case, function, inputs, grads), HALF_WIDTH_EPSILON)


# ---- layernorm -----------------------------------------------------------------------------------

def layernorm(kernels, case):
    torch, (rows, cols) = case.torch, case.axes
    inputs, function = pytorch.op_layernorm(case)
    x, weight, bias = inputs
    y = torch.empty_like(x)
    mean, scale = (torch.empty(rows, device=case.device) for _ in range(2))
    kernel = kernels.find("layer_norm_forward_sm89_kernel",
                          "_Z30layer_norm_forward_sm89_kernelIffEvPKT_S2_S2_PS0_PT0_S5_iS4_")

    def forward():
        kernels.launch(kernel, (rows,), (512,), (x, weight, bias, y, mean, scale,
                                                 ctypes.c_int(cols), ctypes.c_float(1e-5)))
    if not case.backward:
        return Op(case, "layer_norm_forward_sm89_kernel", inputs, [y], forward,
                  right_forward(function, inputs))
    of_x = kernels.find("ln_backward_input_sm89_kernel",
                        "_ZN9OwnTensor4cuda29ln_backward_input_sm89_kernelIfEEvPKT_S4_PKfS6_S4_PS2_i")
    of_weights = kernels.find("ln_backward_gamma_beta_sm89_kernel",
                              "_Z34ln_backward_gamma_beta_sm89_kernelIfEvPKT_S2_PKfS4_PfS5_ii")
    grads = pytorch.draw_grads(case, inputs, function)
    dx, sums = torch.empty_like(x), torch.zeros(2, cols, device=case.device)
    forward()  # mean and scale are saved by it

    def backward():
        kernels.launch(of_x, (rows,), (512,), (grads[0], x, mean, scale, weight, dx,
                                               ctypes.c_int(cols)))
        sums.zero_()  # its sums are added up by atomics
        kernels.launch(of_weights, (-(-cols // 32), -(-rows // 8)), (32, 8),
                       (grads[0], x, mean, scale, sums[0], sums[1], ctypes.c_int(rows),
                        ctypes.c_int(cols)))
    return Op(case, "ln_backward_input_sm89_kernel + ln_backward_gamma_beta_sm89_kernel", inputs + grads,
              [dx, sums[0], sums[1]], backward, right_backward(case, function, inputs, grads))


# ---- cross-entropy -------------------------------------------------------------------------------

def cross_entropy(kernels, case):
    torch, (rows, vocab) = case.torch, case.axes
    targets = case.below(vocab, rows, name="targets")
    logits = case.normal(rows, vocab, name="logits")
    losses, largest, sums = (torch.empty(rows, device=case.device) for _ in range(3))
    loss, sizes = torch.empty((), device=case.device), (int64(rows), int64(vocab))
    save = kernels.find("sparse_ce_forward_kernel_vec_save_stats",
                        "_Z39sparse_ce_forward_kernel_vec_save_statsIflEvPKT_PKT0_PS0_PfS7_ll")

    def function(x):
        return torch.nn.functional.cross_entropy(x, targets)

    def rows_forward():
        kernels.launch(save, (rows,), (256,), (logits, targets, losses, largest, sums) + sizes,
                       (4 * 256 + 2 * 256) * 4)

    def forward():
        rows_forward()
        torch.mean(losses, 0, out=loss)
    if not case.backward:
        return Op(case, "sparse_ce_forward_kernel_vec_save_stats + mean of torch", [logits], [loss],
                  forward, right_forward(function, [logits]))
    normalize = kernels.find("sparseCENormalize_from_stats",
                             "_Z28sparseCENormalize_from_statsIflEvPKT_PKT0_PS0_PKfS8_llS2_f")
    gradient, one = torch.empty_like(logits), torch.ones((), device=case.device)
    rows_forward()  # the largest logit and the sum of each row are saved by it
    return Op(case, "sparseCENormalize_from_stats", [logits], [gradient],
              lambda: kernels.launch(normalize, (rows,), (256,), (
                  logits, targets, gradient, largest, sums) + sizes +
                  (one, ctypes.c_float(1.0 / rows))),
              right_backward(case, function, [logits], [one]))


# ---- attention -----------------------------------------------------------------------------------

def strides(*names):
    return [(f"{name}_{axis}", ctypes.c_int64) for name in names for axis in ("batch", "row", "head")]


def pointers(*names):
    return [(name, ctypes.c_void_p) for name in names]


ROW_STRIDES = [(f"{name}_{axis}", ctypes.c_int64) for name in ("lse", "d") for axis in ("batch", "head")]


class Forward(ctypes.Structure):
    _fields_ = pointers("q", "k", "v", "o", "lse") + \
        [("batch", ctypes.c_int), ("heads", ctypes.c_int), ("length", ctypes.c_int64),
         ("scale", ctypes.c_float), ("causal", ctypes.c_bool), ("dropout", ctypes.c_float),
         ("mask", ctypes.c_void_p)] + strides("sq", "sk", "sv", "so") + ROW_STRIDES[:2]


class Backward(ctypes.Structure):
    _fields_ = pointers("q", "k", "v", "o", "grad", "lse", "d", "dq", "dk", "dv") + \
        [("batch", ctypes.c_int), ("heads", ctypes.c_int), ("length", ctypes.c_int),
         ("scale", ctypes.c_float), ("causal", ctypes.c_bool)] + \
        strides("sq", "sk", "sv", "so", "sgrad", "sdq", "sdk", "sdv") + ROW_STRIDES


def fill(struct, case, causal, tensors):
    batch, heads, length, size = case.axes
    steps = {"batch": heads * length * size, "row": size, "head": length * size}
    row_steps = {"batch": heads * length, "head": length}
    for field, _ in struct._fields_:
        name, _, axis = field.rpartition("_")
        if axis in steps and name:
            setattr(struct, field, (row_steps if name in ("lse", "d") else steps)[axis])
    struct.batch, struct.heads, struct.length = batch, heads, length
    struct.scale, struct.causal = size ** -0.5, causal
    for name, tensor in tensors.items():
        setattr(struct, name, tensor.data_ptr())
    return struct


def attention(kernels, case, causal=False):
    torch, (batch, heads, length, size) = case.torch, case.axes
    if size != 64:
        raise Cannot("unsupported", f"attention of HyperKernels supports only heads of 64, not of {size}")
    if not case.tf32:
        raise Cannot("unsupported", "attention of HyperKernels supports only tf32")
    inputs, function = pytorch.op_attention(case, causal)
    q, k, v = inputs
    o, lse = torch.empty_like(q), torch.empty(batch, heads, length, device=case.device)
    shared_bytes = 4 * (3 * 64 * 68 + 64 * 72 + 3 * 64)
    kernel = kernels.find("fused_attn_forward_kernel_tc_sm89", "_Z33fused_attn_forward_kernel_tc_"
                          "sm89ILi64ELi64ELi64ELi1EEv21MemEfficientFwdParams", shared_bytes)
    told = fill(Forward(), case, causal, {"q": q, "k": k, "v": v, "o": o, "lse": lse})

    def forward():
        kernels.launch(kernel, (-(-length // 64), batch * heads), (256,), (told,), shared_bytes)
    if not case.backward:
        return Op(case, "fused_attn_forward_kernel_tc_sm89", inputs, [o], forward,
                  right_forward(function, inputs), HALF_WIDTH_EPSILON)
    sums = kernels.find("mem_efficient_bwd_precompute_D_sm89",
                        "_Z35mem_efficient_bwd_precompute_D_sm89ILi64EEv21MemEfficientBwdParams")
    unified = kernels.find("mem_efficient_bwd_unified_kernel_exp12",
                           "_ZN9OwnTensor38mem_efficient_bwd_unified_kernel_exp12ILi64ELb"
                           f"{int(causal)}EEEvNS_21MemEfficientBwdParamsE")
    grads = pytorch.draw_grads(case, inputs, function)
    dq, dk, dv = (torch.empty_like(q) for _ in range(3))
    forward()  # output and logarithms of sums are saved by it
    row_sums = torch.empty_like(lse)
    of = fill(Backward(), case, causal, {
        "q": q, "k": k, "v": v, "o": o, "grad": grads[0], "lse": lse, "d": row_sums, "dq": dq,
        "dk": dk, "dv": dv})
    grid = (-(-length // 16), batch * heads)
    unified_bytes = 4 * (2 * 32 * 68 + 2 * 16 * 68 + 2 * 32 * 20 + 2 * 16 * 36 + 32 * 68 + 2 * 32)

    def backward(held=(row_sums, o, lse)):  # pylint: disable=unused-argument
        dq.zero_()  # added up by atomics
        kernels.launch(sums, grid, (256,), (of,))
        kernels.launch(unified, grid, (256,), (of,), unified_bytes)
    return Op(case, "mem_efficient_bwd_precompute_D_sm89 + mem_efficient_bwd_unified_kernel_exp12",
              inputs + grads, [dq, dk, dv], backward,
              right_backward(case, function, inputs, grads), HALF_WIDTH_EPSILON)


def attention_causal(kernels, case):
    return attention(kernels, case, causal=True)


# ---- adamw ---------------------------------------------------------------------------------------

CHUNK, TENSORS_MAX, BLOCKS_MAX = 32768, 48, 320


class Launch(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p * TENSORS_MAX) for name in ("params", "grads", "ms", "vs")] + \
        [("sizes", ctypes.c_int64 * TENSORS_MAX), ("tensor", ctypes.c_ubyte * BLOCKS_MAX),
         ("chunk", ctypes.c_int * BLOCKS_MAX)]


def launches_of(groups):
    """(Launch, blocks) of all chunks of the tensors (param, grad, m, v)."""
    made, launch, tensors, blocks = [], Launch(), 0, 0
    for group in groups:
        placed = False
        for chunk in range(math.ceil(group[0].numel() / CHUNK)):
            if blocks == BLOCKS_MAX or (not placed and tensors == TENSORS_MAX):
                made.append((launch, blocks))
                launch, tensors, blocks, placed = Launch(), 0, 0, False
            if not placed:
                for name, tensor in zip(("params", "grads", "ms", "vs"), group):
                    getattr(launch, name)[tensors] = tensor.data_ptr()
                launch.sizes[tensors] = group[0].numel()
                tensors, placed = tensors + 1, True
            launch.tensor[blocks], launch.chunk[blocks] = tensors - 1, chunk
            blocks += 1
    return made + [(launch, blocks)]


def groups_of(case):
    """(param, grad, m, v) of each tensor, and the number of the step that is taken: the task's
    values, or random ones before a first step."""
    torch, counts = case.torch, pytorch.tensors_of(case)
    if case.returned.asked():
        split = [case.returned.load(name).split(counts) for name in ("param", "grad", "m", "v")]
        return [tuple(x.clone() for x in each) for each in zip(*split)], pytorch.ADAMW_STEP
    return [(case.normal(count, scale=0.02), case.normal(count, scale=0.01),
             torch.zeros(count, device=case.device), torch.zeros(count, device=case.device))
            for count in counts], 1


def adamw(kernels, case):
    values, (groups, number) = pytorch.ADAMW, groups_of(case)
    kernel = kernels.find("multi_tensor_adam_sm89_kernel",
                          "_Z29multi_tensor_adam_sm89_kernel18AdamLaunchMetadatafffffff")
    launches, (beta1, beta2) = launches_of(groups), values["betas"]
    before = [group[0].clone() for group in groups]
    numbers = [ctypes.c_float(x) for x in (values["lr"], beta1, beta2, values["eps"],
                                           values["weight_decay"], 1 - beta1 ** number,
                                           1 - beta2 ** number)]

    def call(held=groups):  # pylint: disable=unused-argument
        for launch, blocks in launches:
            kernels.launch(kernel, (blocks,), (256,), [launch] + numbers)

    def right():
        for old, (param, _, m, v) in zip(before, groups):  # its first step again
            param.copy_(old)
            m.zero_()
            v.zero_()
        call()
        return [old.double() * (1 - values["lr"] * values["weight_decay"]) - values["lr"] *
                grad.double() / (grad.double().abs() + values["eps"])
                for old, (_, grad, _, _) in zip(before, groups)]
    return Op(case, "multi_tensor_adam_sm89_kernel", [x for group in groups for x in group],
              [group[0] for group in groups], call, right,
              returned=lambda: [case.torch.cat([group[i] for group in groups]) for i in (0, 2, 3)])


MAKERS = {"gelu": gelu, "layernorm": layernorm, "cross_entropy": cross_entropy,
          "attention": attention, "attention_causal": attention_causal, "adamw": adamw}
