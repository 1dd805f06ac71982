"""Kernel cases in PyTorch: operations, their check against float64, and their time.

Inputs are those that the task gives, and outputs are returned to the recorder after the timed loop.
If it gives none, they are normal random numbers with the case's seed, and the result is compared
with the same operation in float64 here, before the measurement. Samples are taken as the method
prescribes, like the harness's: cold (a scrub of twice the cache before each), rotating (copies of
inputs over five times the cache) or hot.
"""
import ctypes
import importlib
import math
import statistics
import time

from protocol import Cannot, device_name, load_torch, say, say_versions
from returned import Returned

# ---- operations: name -> function(torch, case) -> (inputs, call) ---------------------------------
# `inputs` are leaf tensors; call(inputs) gives the outputs. Backward: outputs' gradients by autograd.


class Case:
    def __init__(self, torch, task):
        kernel = task["case"]["kernel"]
        self.torch = torch
        self.op = kernel["op"]
        self.backward = kernel["direction"] == "backward"
        self.cache = kernel["cache"]
        self.max_time_s = kernel["max_time_s"]
        self.device = task["device"]
        self.tf32 = kernel["dtype"] == "tf32"
        self.dtype = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16,
                      "f64": torch.float64}[kernel["dtype"]]
        self.shape_text = kernel["shape"]
        self.axes = [] if not kernel["shape"][0].isdigit() else \
            [int(axis) for axis in kernel["shape"].split("x")]
        self.seed = kernel["seed"]
        self.generator = torch.Generator(device=self.device)
        self.returned = Returned(torch, task, self.device)
        self.indices = []  # drawn; not among the inputs of an operation
        self.both = self.backward and self.op.startswith("chain_")  # forward and backward, timed as one
        self.constants = ()  # inputs that get no gradient, by number

    def reset(self):
        self.generator.manual_seed(self.seed)

    def reseed(self):
        """Draws other values from now on."""
        self.seed += 1
        self.returned.which = 1
        self.reset()

    def normal(self, *shape, scale=1.0, name=None):
        """The input of that name, or random numbers if the task gives none."""
        if self.returned.gives(name):
            return self.returned.load(name).view(shape)
        drawn = self.torch.randn(*shape, generator=self.generator, device=self.device)
        return (drawn * scale).to(self.dtype)

    def heads(self, name):
        """The same for an operand of attention, where a token's row holds all heads."""
        batch, heads, tokens, size = self.axes
        return self.normal(batch, tokens, heads, size, name=name).transpose(1, 2).contiguous()

    def below(self, bound, *shape, name=None):
        drawn = self.returned.load(name).view(shape).long() if self.returned.gives(name) else \
            self.torch.randint(bound, shape, generator=self.generator, device=self.device)
        self.indices.append(drawn)
        return drawn

    def gradient(self, output):
        """The gradient of an output: random, 1 for a mean."""
        if output.dim() == 0:
            return self.torch.ones_like(output)
        if self.op.startswith("attention"):
            return self.heads("do")
        return self.normal(*output.shape, name="dy").to(output.dtype)


def op_copy(case):
    return [case.normal(*case.axes, name="x")], lambda x: x.clone()


def op_cast(case):
    target = case.torch.float32 if case.dtype == case.torch.bfloat16 else case.torch.bfloat16
    return [case.normal(*case.axes)], lambda x: x.to(target)


def op_transpose(case):
    rows, cols = case.axes
    return [case.normal(cols, rows)], lambda x: x.t().contiguous()


def op_gelu(case):
    gelu = case.torch.nn.functional.gelu
    return [case.normal(*case.axes, name="x")], lambda x: gelu(x, approximate="tanh")


def op_bias(case):
    return [case.normal(*case.axes), case.normal(case.axes[1])], lambda x, bias: x + bias


def op_layernorm(case):
    norm, cols = case.torch.nn.functional.layer_norm, case.axes[1]
    weight = case.normal(cols, scale=0.2, name="gamma")
    inputs = [case.normal(*case.axes, name="s" if case.backward else "x"),
              weight if case.returned.gives("gamma") else 1 + weight,
              case.normal(cols, name="beta")]
    return inputs, lambda x, weight, bias: norm(x, (cols,), weight, bias, 1e-5)


def op_residual_layernorm(case):
    inputs, norm = op_layernorm(case)

    def call(x, weight, bias, residual):
        total = x + residual
        return total, norm(total, weight, bias)
    return inputs + [case.normal(*case.axes)], call


def op_softmax(case):
    return [case.normal(*case.axes)], lambda x: case.torch.softmax(x, -1)


def rms_norm(torch, x, weight):
    wide = x.to(weight.dtype)
    return (wide / torch.sqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * weight).to(x.dtype)


def norm_weight(case):
    """Between 0.5 and 1.5; f32 beside bf16 activations."""
    drawn = case.torch.rand(case.axes[1], generator=case.generator, device=case.device) + 0.5
    return drawn.double() if case.dtype == case.torch.float64 else drawn


def op_chain_rms_norm(case):
    torch = case.torch
    return ([case.normal(*case.axes), norm_weight(case)],
            lambda x, weight: rms_norm(torch, x, weight))


def op_chain_residual_rms_norm(case):
    torch = case.torch

    case.constants = (1,)  # its gradient is that of x

    def call(x, residual, weight):
        total = x + residual
        return total, rms_norm(torch, total, weight)
    return [case.normal(*case.axes), case.normal(*case.axes), norm_weight(case)], call


def op_chain_swiglu(case):
    silu = case.torch.nn.functional.silu
    return ([case.normal(*case.axes), case.normal(*case.axes)],
            lambda gate, up: silu(gate) * up)


def op_chain_rope(case):
    torch, (rows, heads, size) = case.torch, case.axes
    tables = [case.normal(rows, 1, size).clamp(-1, 1) for _ in range(2)]
    case.constants = (1, 2)

    def call(x, cos_rows, sin_rows):
        low, high = x.chunk(2, -1)
        return x * cos_rows + torch.cat((-high, low), -1) * sin_rows
    return [case.normal(rows, heads, size)] + tables, call


def op_chain_softmax(case):
    torch = case.torch

    def call(x):
        power = torch.exp(x)
        return power / power.sum(-1, keepdim=True)
    return [case.normal(*case.axes)], call


def op_chain_cross_entropy(case):
    torch = case.torch
    wanted = torch.softmax(case.normal(*case.axes).float(), -1).to(case.dtype)
    case.constants = (1,)

    def call(logits, p):
        return torch.log(torch.exp(logits).sum(-1)) - (p * logits).sum(-1)
    return [case.normal(*case.axes), wanted], call


def op_chain_scores(case):
    torch, (entries, queries, keys, size) = case.torch, case.axes

    def call(q, k, bias):
        scores = torch.bmm(q, k.transpose(1, 2)) * size**-0.5 + bias
        return 30 * torch.tanh(scores * (1 / 30))
    return [case.normal(entries, queries, size), case.normal(entries, keys, size),
            case.normal(queries, keys)], call


def op_cross_entropy(case):
    loss = case.torch.nn.functional.cross_entropy
    targets = case.below(case.axes[1], case.axes[0], name="targets")
    return [case.normal(*case.axes, name="logits")], lambda logits: loss(logits, targets)


def op_reduce_sum(case):
    return [case.normal(*case.axes, name="x")], lambda x: x.sum(0)


def op_reduce_sum_rows(case):
    return [case.normal(*case.axes)], lambda x: x.sum(1)


def op_embedding(case):
    rows, cols, vocab = case.axes
    ids = case.below(vocab, rows)
    return [case.normal(vocab, cols)], lambda table: case.torch.nn.functional.embedding(ids, table)


# Systems that run attention by one of PyTorch's kernels: pytorch-cudnn and so on.
ATTENTION_BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION",
                      "efficient": "EFFICIENT_ATTENTION"}


def attention_backend(system):
    """Its name in PyTorch, or None if PyTorch chooses."""
    return ATTENTION_BACKENDS.get(system.rpartition("-")[2])


def by_backend(case, function, name):
    """The same function with only that kernel of attention enabled."""
    try:
        attention = importlib.import_module("torch.nn.attention")
        backend = getattr(attention.SDPBackend, name)
    except (ImportError, AttributeError) as error:
        raise Cannot("unsupported", f"PyTorch {case.torch.__version__} has no {name}") from error

    def call(*inputs):
        try:
            with attention.sdpa_kernel(backend):
                return function(*inputs)
        except RuntimeError as error:
            if "No available kernel" not in str(error):
                raise
            raise Cannot("unsupported", f"{name} has no kernel for {case.op} of {case.dtype}, "
                         f"{case.shape_text}") from error
    return call


def op_attention(case, causal=False):
    torch = case.torch
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        raise Cannot("unsupported", f"PyTorch {torch.__version__} has no scaled_dot_product_attention")
    torch.backends.cuda.matmul.allow_tf32 = case.tf32
    attention = torch.nn.functional.scaled_dot_product_attention
    inputs = [case.heads(name) for name in "qkv"]
    return inputs, lambda q, k, v: attention(q, k, v, is_causal=causal)


def op_attention_causal(case):
    return op_attention(case, causal=True)


def product_inputs(case, b_first):
    """a [m, k] and b, whose k is its second axis or its first; D is about 1."""
    case.torch.backends.cuda.matmul.allow_tf32 = case.tf32
    *batch, m, n, k = case.axes
    b = (k, n) if b_first else (n, k)
    return [case.normal(*batch, m, k, name="a"),
            case.normal(*batch, *b, scale=k ** -0.5, name="b")]


def op_gemm_nt(case):
    return product_inputs(case, False), lambda a, b: a @ b.mT


def op_gemm_nn(case):
    return product_inputs(case, True), lambda a, b: a @ b


def op_gemm_tn(case):
    a, b = product_inputs(case, True)
    return [a.t().contiguous(), b], lambda a, b: a.t() @ b


def op_gemm_batched(case):
    return op_gemm_nt(case)


def op_gemm_bias(case):
    return product_inputs(case, False) + [case.normal(case.axes[1])], case.torch.nn.functional.linear


def op_gemm_bias_gelu(case):
    inputs, linear = op_gemm_bias(case)

    def call(a, b, bias):
        before = linear(a, b, bias)
        return before, case.torch.nn.functional.gelu(before, approximate="tanh")
    return inputs, call


def op_gemm_bias_residual(case):
    inputs, linear = op_gemm_bias(case)
    inputs.append(case.normal(*case.axes[:2]))
    return inputs, lambda a, b, bias, residual: linear(a, b, bias) + residual


def op_gemm_dgelu(case):
    slope = case.torch.ops.aten.gelu_backward
    inputs = product_inputs(case, True) + [case.normal(*case.axes[:2])]
    return inputs, lambda a, b, before: slope(a @ b, before, approximate="tanh")


OPS = {name[3:]: made for name, made in globals().items() if name.startswith("op_")}


def tensors_of(case):
    """Element counts of the tensors of an optimizer case, as in harness/plan/kernel.c."""
    block = [768, 768, 768 * 2304, 2304, 768 * 768, 768, 768, 768, 768 * 3072, 3072, 3072 * 768, 768]
    if case.shape_text == "block":
        return block
    if case.shape_text == "gpt2_124m":
        return [50304 * 768, 1024 * 768] + 12 * block + [768, 768]
    return [math.prod(case.axes)]


# The harness's names of a call's outputs, forward and backward.
RETURNED = {"copy": (["y"],), "gelu": (["y"], ["dx"]), "reduce_sum": (["y"],),
            "layernorm": (["y"], ["dx", "dgamma", "dbeta"]), "cross_entropy": (["mean"], ["dlogits"]),
            "attention": (["o"], ["dq", "dk", "dv"]), "attention_causal": (["o"], ["dq", "dk", "dv"]),
            "gemm_batched": (["d"],), "adamw": (["param", "m", "v"],)}


def return_results(case, results, precision=""):
    """Returns the outputs of a call in the harness's layout."""
    if case.op.startswith("attention"):
        results = [x.transpose(1, 2) for x in results]
    case.returned.write(RETURNED[case.op][case.backward], results, precision)


ADAMW_STEP = 10  # of the step whose results are returned
ADAMW = {"lr": 6e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def prepare_adamw(case, compiled):
    """A step over fp32 weights; for bf16 cases also the copy into the bf16 weights."""
    torch = case.torch
    mixed = case.dtype == torch.bfloat16
    if mixed and not hasattr(torch, "_foreach_copy_"):
        raise Cannot("unsupported", f"PyTorch {torch.__version__} has no _foreach_copy_")
    case.dtype = torch.float32
    parameters = []
    for count in tensors_of(case):
        parameter = torch.nn.Parameter(case.normal(count, scale=0.02))
        parameter.grad = case.normal(count, scale=0.01)
        parameters.append(parameter)
    copies = [p.detach().bfloat16() for p in parameters] if mixed else []
    cuda = case.device == "cuda"
    how = {"capturable": True} if compiled and cuda else {"fused": True} if cuda else {}
    optimizer = torch.optim.AdamW(parameters, **ADAMW, **how)

    def step():
        optimizer.step()
        if copies:
            torch._foreach_copy_(copies, [p.detach() for p in parameters])
    timed = torch.compile(step) if compiled else step
    if case.returned.asked():
        give_adamw(case, optimizer, parameters, bool(how))
        return timed, lambda: return_adamw(case, optimizer, parameters, timed, bool(how))
    return timed, check_adamw(parameters, timed)


def give_adamw(case, optimizer, parameters, on_device):
    """Puts the task's values into parameters, gradients and moments, before step ADAMW_STEP."""
    torch, start = case.torch, 0
    given = {name: case.returned.load(name) for name in ("param", "grad", "m", "v")}
    for parameter in parameters:
        part = {name: flat[start:start + parameter.numel()].view_as(parameter)
                for name, flat in given.items()}
        start += parameter.numel()
        state = optimizer.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device if on_device else "cpu")
            state["exp_avg"], state["exp_avg_sq"] = (torch.empty_like(parameter) for _ in range(2))
        with torch.no_grad():
            state["step"].fill_(ADAMW_STEP - 1)
            for target, name in ((parameter, "param"), (parameter.grad, "grad"),
                                 (state["exp_avg"], "m"), (state["exp_avg_sq"], "v")):
                target.copy_(part[name])


def return_adamw(case, optimizer, parameters, step, on_device):
    case.reseed()
    give_adamw(case, optimizer, parameters, on_device)
    step()
    states = [optimizer.state[parameter] for parameter in parameters]
    return_results(case, [case.torch.cat(each) for each in (
        [p.detach() for p in parameters], [s["exp_avg"] for s in states],
        [s["exp_avg_sq"] for s in states])])


def check_adamw(parameters, step):
    """Checks the first step against its formula in float64, in which the moments' biases cancel."""
    before = [p.detach().double() for p in parameters]
    step()
    worst = 0.0
    for old, parameter in zip(before, parameters):
        grad = parameter.grad.double()
        right = old * (1 - ADAMW["lr"] * ADAMW["weight_decay"]) - \
            ADAMW["lr"] * grad / (grad.abs() + ADAMW["eps"])
        worst = worst_of(worst, parameter.detach(), right, 4)
    return right_or_raise("adamw", worst)


def prepare_grad_norm(case, compiled):
    torch = case.torch
    if not hasattr(torch, "_foreach_norm"):
        raise Cannot("unsupported", f"PyTorch {torch.__version__} has no _foreach_norm")
    grads = [case.normal(count, scale=0.01) for count in tensors_of(case)]

    def norm():
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    timed = torch.compile(norm) if compiled else norm
    right = sum(grad.double().square().sum() for grad in grads).sqrt()
    return timed, right_or_raise("grad_norm", worst_of(0.0, timed(), right, 1024))


# ---- a call and its check ------------------------------------------------------------------------

def as_list(outputs):
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def graded(case, outputs):
    """The outputs that get a gradient: all, the last one of a chain."""
    return outputs[-1:] if case.op.startswith("chain_") else outputs


def leaves_of(case, inputs):
    return [x.detach().requires_grad_(i not in case.constants) for i, x in enumerate(inputs)]


def differentiate(case, function, leaves, grads):
    """Forward, then the leaves' gradients for these gradients of the outputs."""
    outputs = graded(case, as_list(function(*leaves)))
    return case.torch.autograd.grad(outputs, [x for x in leaves if x.requires_grad], grads)


def evaluate(case, inputs, function, grads):
    """Outputs, or gradients of the inputs for these gradients of the outputs."""
    if grads is None:
        with case.torch.no_grad():
            return as_list(function(*inputs))
    return list(differentiate(case, function, leaves_of(case, inputs), grads))


def draw_grads(case, inputs, function):
    return [case.gradient(y) for y in graded(case, evaluate(case, inputs, function, None))]


def epsilon_of(tensor):
    return importlib.import_module("torch").finfo(tensor.dtype).eps


def worst_of(worst, got, right, epsilons):
    """The larger of `worst` and the error of `got`, divided by that many epsilons of the largest value."""
    limit = epsilons * epsilon_of(got) * float(right.abs().max())
    error = float((got.double() - right).abs().max())
    share = 0.0 if error == 0 else error / limit if limit > 0 else math.inf
    return math.inf if math.isnan(share) else max(worst, share)


def right_or_raise(op, worst):
    if not worst <= 1:
        raise ArithmeticError(f"wrong result of {op}: error is {worst:.3g} times its tolerance")
    return worst


def fits_float64(inputs):
    """Larger shapes are not checked; smaller ones of the same operation are."""
    return sum(x.numel() for x in inputs) <= 1 << 28


def judged(case):
    """The part of a tensor that is checked: all, or as many heads as have up to 2^30 scores."""
    if not case.op.startswith("attention"):
        return lambda tensor: tensor
    batch, heads, tokens = case.axes[:3]
    count = max(1, (1 << 30) // tokens ** 2)
    entries = min(batch, count)
    return lambda tensor: tensor[:entries, :max(1, min(heads, count // entries))]


def check(case, inputs, function, timed, grads):
    """The largest error divided by a tolerance of sqrt(length) epsilons of the largest value."""
    if case.returned.asked() or not fits_float64(inputs):
        return None
    part = judged(case)
    wide = [part(x).double() for x in inputs]
    expected = evaluate(case, wide, function, grads and [part(g).double() for g in grads])
    actual = [part(y) for y in evaluate(case, inputs, timed, grads)]
    worst = 0.0
    epsilon = case.torch.finfo(case.dtype).eps if not case.tf32 else 2.0 ** -10
    for got, right in zip(actual, expected):
        length = max(1, sum(x.numel() for x in wide) // max(1, right.numel()))
        coarse = max(1.0, epsilon / epsilon_of(got))  # a tf32 product in fp32
        worst = worst_of(worst, got, right, 32 * coarse * math.sqrt(length))
    return right_or_raise(case.op, worst)


def prepare_op(case, function, timed, inputs):
    """The timed part of an operation on these inputs: a function without arguments."""
    if not case.backward:
        def forward():
            with case.torch.no_grad():
                return timed(*inputs)
        return forward
    grads = draw_grads(case, inputs, function)
    leaves = leaves_of(case, inputs)
    if case.both:
        return lambda: differentiate(case, timed, leaves, grads)
    outputs = as_list(timed(*leaves))
    return lambda: case.torch.autograd.grad(outputs, leaves, grads, retain_graph=True)


def copies_of(case, size_bytes):
    """How many sets of operands the calls use in turn: one, unless they rotate."""
    if case.cache != "rotating":
        return 1
    return min(64, math.ceil(5 * cache_bytes(case) / max(1, size_bytes)) + 1)


def check_again(case, function, timed, inputs, call):
    """After the timed loop: new values at new addresses, then at the timed ones."""
    case.reseed()
    fresh = OPS[case.op](case)[0]
    grads = draw_grads(case, fresh, function) if case.backward else None
    share = check(case, fresh, function, timed, grads)
    if share is None or case.backward:  # what a backward call saved cannot change under it
        return share
    for old, new in zip(inputs, fresh):
        old.copy_(new)
    return max(share, check(case, inputs, function, lambda *_: call(), None))


def return_outputs(case, function, timed, inputs, call):
    """The outputs of the timed call for other values: of a forward call at the timed addresses; of
    a backward call, whose saved tensors cannot be replaced, at new ones."""
    case.reseed()
    timed_indices, case.indices = case.indices, []
    fresh = OPS[case.op](case)[0]
    for old, new in zip(timed_indices, case.indices):
        old.copy_(new)
    if case.backward:
        results = evaluate(case, fresh, timed, draw_grads(case, fresh, function))
    else:
        for old, new in zip(inputs, fresh):
            old.copy_(new)
        results = as_list(call())
    return_results(case, results)


def prepare(case, compiled, backend=None):
    """The timed functions, without arguments, called in turn; their largest error; and a function
    that checks them again with other values. If the task requests outputs, the recorder checks
    them: there is no error then, and the function returns the outputs."""
    special = {"adamw": prepare_adamw, "grad_norm": prepare_grad_norm}.get(case.op)
    case.reset()
    if special:
        size_bytes = 4 * sum(tensors_of(case))
        made = [special(case, compiled) for _ in range(copies_of(case, size_bytes))]
        if case.returned.asked():
            return [timed for timed, _ in made], None, made[0][1]

        def again():
            case.reseed()
            return special(case, compiled)[1]
        return [timed for timed, _ in made], max(share for _, share in made), again
    if case.op not in OPS:
        raise Cannot("unsupported", f"no {case.op} in this peer; available: {', '.join(sorted(OPS))}")
    inputs, function = OPS[case.op](case)
    if compiled and not case.both:
        # A graph that is kept for repeated backward calls cannot donate its buffers.
        importlib.import_module("torch._functorch.config").donated_buffer = False
    timed = case.torch.compile(function) if compiled else function
    if backend:
        timed = by_backend(case, timed, backend)
    grads = draw_grads(case, inputs, function) if case.backward else None
    share = check(case, inputs, function, timed, grads)
    size_bytes = sum(x.numel() * x.element_size() for x in inputs)
    sets = [inputs] + [[x.clone() for x in inputs] for _ in range(copies_of(case, size_bytes) - 1)]
    calls = [prepare_op(case, function, timed, each) for each in sets]
    if case.returned.asked():
        return calls, None, lambda: return_outputs(case, function, timed, inputs, calls[0])
    return calls, share, lambda: check_again(case, function, timed, inputs, calls[0])


# ---- time ----------------------------------------------------------------------------------------

def cache_bytes(case):
    if case.device != "cuda":
        return 64 << 20
    return getattr(case.torch.cuda.get_device_properties(0), "L2_cache_size", 64 << 20)


JOIN_NS = 100000  # more than an idle device takes to say so


class Clock:
    """Samples of one call in ns: device events on CUDA, the monotonic clock on the CPU."""

    def __init__(self, case, calls):
        self.torch, self.cuda = case.torch, case.device == "cuda"
        self.calls, self.next, self.calls_per_sample, self.graph = calls, 0, 1, None
        self.wait_cycles = 8000000 if case.both else 1000000
        self.inside_ns, self.outside_ns = [], []  # between the events; on other streams behind them
        self.driver = ctypes.CDLL("libcuda.so.1") if self.cuda else None
        self.scrub = self.torch.empty(2 * cache_bytes(case), dtype=self.torch.uint8,
                                      device=case.device) if case.cache == "cold" else None

    def call_all(self):
        for _ in range(self.calls_per_sample):
            self.calls[self.next]()
            self.next = (self.next + 1) % len(self.calls)

    def call_often(self, count):
        """Times that many calls a sample; on CUDA as a graph, since Python cannot launch as fast."""
        self.calls_per_sample = max(count, len(self.calls))
        if not self.cuda:
            return
        graph = self.torch.cuda.CUDAGraph()
        try:
            with self.torch.cuda.graph(graph):
                self.call_all()
        except RuntimeError as error:
            raise Cannot("unsupported", f"these calls cannot be captured as a graph: {error}") \
                from error
        self.graph = graph

    def sample(self):
        if self.driver:
            self.driver.cuCtxResetPersistingL2Cache()  # nobody's lines outlive a scrub
        if self.scrub is not None:
            self.scrub.fill_(1)
            self.scrub.sum()  # what was written is written back now, not while time is taken
        if not self.cuda:
            start = time.perf_counter_ns()
            self.call_all()
            return max(1, time.perf_counter_ns() - start) / self.calls_per_sample
        # Long enough that all launches of the call are queued before the first event: the time
        # is the device's, not Python's.
        self.torch.cuda._sleep(self.wait_cycles)
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        if self.graph:
            self.graph.replay()
        else:
            self.call_all()
        stop.record()
        stop.synchronize()
        joined = time.perf_counter_ns()
        self.torch.cuda.synchronize()  # every stream
        passed_ns = max(1.0, start.elapsed_time(stop) * 1e6)
        self.inside_ns.append(passed_ns)
        self.outside_ns.append(time.perf_counter_ns() - joined)
        return passed_ns / self.calls_per_sample

    def check_streams(self):
        """Fails if there was work on streams that the events do not measure."""
        if not self.inside_ns:
            return
        inside, outside = statistics.median(self.inside_ns), statistics.median(self.outside_ns)
        if outside > JOIN_NS and outside > 0.05 * inside:
            raise ArithmeticError(
                f"work continued after the timed interval: {outside:.3g} ns on other streams, "
                f"{inside:.3g} ns between the events")


def why_stop(samples, passed_s, max_time_s):
    if passed_s >= max_time_s and len(samples) >= 3:
        return "time limit"
    if len(samples) < 30 or passed_s < 0.3:
        return None
    ordered = sorted(samples)
    count = len(ordered)
    reach = math.ceil(0.98 * math.sqrt(count))  # ranks of the 95 % interval, normal approximation
    low, high = ordered[max(0, count // 2 - reach)], ordered[min(count - 1, count // 2 + reach)]
    return "interval of the median within 0.25 %" if high - low <= 0.005 * statistics.median(ordered) else None


def measure(case, calls):
    clock = Clock(case, calls)
    for _ in range(5 + len(calls)):
        first = clock.sample()
    if case.cache != "cold" and first < 20000:
        clock.call_often(min(1024, 1 << math.ceil(math.log2(max(1.0, 200000 / first)))))
    samples, started, stop, look = [], time.monotonic(), None, 3
    while stop is None:
        samples.append(clock.sample())
        passed_s = time.monotonic() - started
        if len(samples) >= look or passed_s >= case.max_time_s:
            look = len(samples) + max(1, len(samples) // 8)
            stop = why_stop(samples, passed_s, case.max_time_s)
    clock.check_streams()
    return samples, stop, clock.calls_per_sample


def run(task):
    torch = load_torch(task["device"])
    # 'f32' is IEEE here, as in the cases of the harness; attention sets its own.
    torch.backends.cuda.matmul.allow_tf32 = False
    compiled = task["system"].endswith("-compile")
    if compiled and not hasattr(torch, "compile"):
        raise Cannot("unavailable", f"PyTorch {torch.__version__} has no torch.compile")
    case = Case(torch, task)
    backend = attention_backend(task["system"])
    if backend and not case.op.startswith("attention"):
        raise Cannot("unsupported", f"{task['system']} runs attention only, not {case.op}")
    calls, share, again = prepare(case, compiled, backend)
    say("start", protocol=1, system=task["system"], device=device_name(torch, case.device))
    say_versions(task)
    say("kernel", op=case.op, kernel=" ".join(filter(None, [f"torch {torch.__version__}", backend])))
    samples, stop, calls_per_sample = measure(case, calls)
    if share is not None:
        share = max(share, again())
    say_samples(samples, calls_per_sample, share, stop)
    if case.returned.asked():
        again()
    say("result", steps_done=0)


def say_samples(samples, calls_per_sample, share, stop):
    for at in range(0, len(samples), 1000):
        say("samples", times_ns=samples[at:at + 1000])
    say("measured", calls_per_sample=calls_per_sample, error_share=share, stop=stop)
