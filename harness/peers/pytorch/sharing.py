"""Ranks that share each layer or each sequence, as PyTorch's users would write them.

Tensor parallel is Megatron's by parallelize_module: QKV and the MLP's first layer by columns, the
layers after them by rows, the token table, the head and the loss by the vocabulary; with
train.mesh.sequence_parallel LayerNorm and the residual stream by positions. Context parallel is
torch.distributed.tensor.experimental.context_parallel around forward and backward, with gradients
averaged by DistributedDataParallel. One of data, tensor and context at a time.
"""
import importlib
from contextlib import contextmanager

from protocol import Cannot
from ranks import Ranks

ROTATIONS = {"all_gather": "allgather", "all_to_all": "alltoall"}
# The module of set_rotate_method, which moved between releases.
ATTENTION = ("torch.distributed.tensor.experimental._attention",
             "torch.distributed.tensor.experimental._context_parallel._attention")


def degrees(task):
    mesh = task["case"].get("train", {}).get("mesh", {})
    return {kind: int(mesh.get(kind, 1)) for kind in ("data", "tensor", "context")}


def load(torch, name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Cannot("unavailable", f"PyTorch {torch.__version__} has no {name}: {error}") from error


def refuse_rests(what, degree, sizes):
    for name, size in sizes.items():
        if size % degree:
            raise Cannot("unsupported", f"{what} is {degree}, which does not divide {name} {size}: "
                         "this peer needs equal parts")


def check_tensor(torch, plan, degree):
    model, sizes = plan["model"], {}
    for key in ("heads", "vocab", "width"):
        sizes[f"model.{key}"] = model[key]
    if plan["mesh"].get("sequence_parallel"):
        sizes.update({"train.sequence": plan["sequence"], "model.context": model["context"]})
    refuse_rests("train.mesh.tensor", degree, sizes)
    load(torch, "torch.distributed.tensor.parallel")


def check_context(torch, plan, degree):
    mesh = plan["mesh"]
    refuse_rests("twice train.mesh.context", 2 * degree, {"train.sequence": plan["sequence"]})
    if int(mesh.get("shared_heads", 1)) > 1:
        raise Cannot("unsupported", "train.mesh.shared_heads: PyTorch's context parallelism supports only a ring")
    if mesh.get("rotation", "all_gather") not in ROTATIONS:
        raise Cannot("unsupported", f"train.mesh.rotation is {mesh['rotation']}; PyTorch has "
                     f"{', '.join(ROTATIONS)}")
    load(torch, "torch.distributed.tensor.experimental")


def check(torch, task):
    """Refuses cases that ranks sharing layers or sequences cannot run."""
    plan, shared = task["case"]["train"], [k for k, n in degrees(task).items() if n > 1]
    kind = next((k for k in ("tensor", "context") if k in shared), None)
    if not kind:
        return
    if len(shared) > 1:
        raise Cannot("unsupported", f"train.mesh has {' and '.join(shared)} above 1: this peer supports "
                     "only one of them")
    if plan["model"].get("family", "gpt2") != "gpt2":
        raise Cannot("unsupported", f"train.mesh.{kind}: this peer supports it only for GPT-2")
    if plan["mesh"].get("half_batches"):
        raise Cannot("unsupported", "train.mesh.half_batches: this peer does not support it")
    if plan["mesh"].get("row_chunks"):
        raise Cannot("unsupported", "train.mesh.row_chunks: this peer does not support it")
    if kind == "context" and task["device"] != "cuda":
        raise Cannot("unsupported", "train.mesh.context: PyTorch's ring attention supports only CUDA")
    if any((plan.get("checkpoint") or {}).get(key) for key in ("at_end", "reload")):
        raise Cannot("unsupported", f"train.checkpoint with train.mesh.{kind}: rank 0 of this peer "
                     "has only a part of the state")
    {"tensor": check_tensor, "context": check_context}[kind](torch, plan, degrees(task)[kind])


class TensorRanks(Ranks):
    """Each rank has a part of every matrix; all process every micro-batch."""

    description = "tensor parallel by DTensor"

    def __init__(self, torch, task, folder):
        super().__init__(torch, task, folder)
        self.replicas = 1
        plan = task["case"]["train"]
        self.sequence_parallel = bool(plan["mesh"].get("sequence_parallel"))
        self.head_size = plan["model"]["width"] // plan["model"]["heads"]
        self.dtensor = load(torch, "torch.distributed.tensor")
        self.styles = load(torch, "torch.distributed.tensor.parallel")
        device_mesh = load(torch, "torch.distributed.device_mesh")
        self.mesh = device_mesh.init_device_mesh(self.device, (self.size,))

    def plans(self):
        """What the modules of a block and of the model share, by name."""
        column, row = self.styles.ColwiseParallel, self.styles.RowwiseParallel
        whole, rows = self.dtensor.Replicate(), self.dtensor.Shard
        if not self.sequence_parallel:
            return ({"qkv": column(), "projection": row(), "up": column(), "down": row()},
                    {"wte": row(input_layouts=whole)})
        norm = self.styles.SequenceParallel
        return ({"ln_1": norm(), "qkv": column(input_layouts=rows(1)),
                 "projection": row(output_layouts=rows(1)),
                 "ln_2": norm(), "up": column(input_layouts=rows(1)),
                 "down": row(output_layouts=rows(1))},
                {"wte": row(input_layouts=whole, output_layouts=rows(1)),
                 "wpe": row(input_layouts=whole, output_layouts=rows(0)), "ln_f": norm()})

    def prepare(self, model):
        of_block, of_model = self.plans()
        for block in model.blocks:
            self.styles.parallelize_module(block, self.mesh, of_block)
        return self.styles.parallelize_module(model, self.mesh, of_model)

    def wrap(self, model):
        return model

    def own(self, batches):
        return batches

    @contextmanager
    def together(self, ids, targets):
        with self.styles.loss_parallel():
            yield ids, targets

    def take_heads(self, qkv):
        """Rows of the packed layer are those of head 0, then of head 1: a rank has whole heads."""
        batch, length, _ = qkv.shape
        return qkv.view(batch, length, -1, 3, self.head_size).permute(3, 0, 2, 1, 4).unbind(0)

    def loss(self, x, table, targets):
        """Cross-entropy of a head whose rows, and so its logits' columns, are distributed over the ranks."""
        whole = [self.dtensor.Replicate()]
        if isinstance(x, self.dtensor.DTensor):
            x = x.redistribute(placements=whole)
        else:
            x = self.dtensor.DTensor.from_local(x, self.mesh, whole, run_check=False)
        logits = x.flatten(0, 1) @ table.t()
        loss = self.torch.nn.functional.cross_entropy(logits.float(), targets.reshape(-1))
        return loss.to_local()

    def clip(self, parameters, bound):
        """clip_grad_norm_ of sharded tensors, and of replicated ones, which count once."""
        parts, wholes = [], []
        for parameter in parameters:
            grad = parameter.grad
            if not isinstance(grad, self.dtensor.DTensor):
                wholes.append(grad)
                continue
            if any(at.is_partial() for at in grad.placements):
                grad = grad.redistribute(placements=[self.dtensor.Replicate()])
                parameter.grad = grad
            shared = any(at.is_shard() for at in grad.placements)
            (parts if shared else wholes).append(grad.to_local())
        squares = [self.torch.stack(self.torch._foreach_norm(each)).square().sum()
                   for each in (parts, wholes)]
        self.torch.distributed.all_reduce(squares[0])
        norm = (squares[0] + squares[1]).sqrt()
        self.torch._foreach_mul_(parts + wholes, (bound / (norm + 1e-6)).clamp(max=1.0))
        return norm


class ContextRanks(Ranks):
    """Each rank has a part of every sequence; all process every micro-batch."""

    description = "context_parallel under DistributedDataParallel"

    def __init__(self, torch, task, folder):
        super().__init__(torch, task, folder)
        self.replicas = 1
        plan = task["case"]["train"]
        device_mesh = load(torch, "torch.distributed.device_mesh")
        self.mesh = device_mesh.init_device_mesh(self.device, (self.size,))
        self.context_parallel = load(
            torch, "torch.distributed.tensor.experimental").context_parallel
        self.attention = load(torch, "torch.nn.attention")
        backends = self.attention.SDPBackend
        self.backend_of_attention = backends.FLASH_ATTENTION if plan["precision"] == "bf16" \
            else backends.EFFICIENT_ATTENTION  # flash has no fp32
        self.rotate(ROTATIONS[plan["mesh"].get("rotation", "all_gather")])

    def rotate(self, method):
        for name in ATTENTION:
            found = getattr(load_or_none(name), "set_rotate_method", None)
            if found:
                found(method)
                return
        raise Cannot("unavailable", f"PyTorch {self.torch.__version__} has no set_rotate_method")

    def own(self, batches):
        return batches

    @contextmanager
    def together(self, ids, targets):
        ids, targets = ids.clone(), targets.clone()  # the parts take their memory over
        positions = self.torch.arange(ids.shape[1], device=ids.device)
        buffers = [ids, targets, positions]
        with self.context_parallel(self.mesh, buffers=buffers, buffer_seq_dims=[1, 1, 0],
                                   no_restore_buffers=set(buffers)), \
                self.attention.sdpa_kernel(self.backend_of_attention):
            yield ids, targets, positions

    def mean(self, loss):
        self.torch.distributed.all_reduce(loss)
        return loss / self.size


def load_or_none(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def make(torch, task, folder):
    """This rank, of the kind that the mesh requires."""
    shared = degrees(task)
    kind = TensorRanks if shared["tensor"] > 1 else ContextRanks if shared["context"] > 1 else Ranks
    return kind(torch, task, folder)
