"""Training cases in PyTorch: the same GPT-2 or Llama, as its users would write it.

One model a family for both modes: scaled_dot_product_attention, fused AdamW, clip_grad_norm_; bf16 by
autocast over fp32 weights, tf32 and fp32 by the precision of matrix products. Initial weights have
the distributions of ours and sequences are those of ours, but the random numbers are PyTorch's:
losses agree in distribution, not in bits.
"""
import importlib
import math
import resource
import time
from contextlib import nullcontext

import protocol
import ranks as several
from protocol import Cannot, device_name, finite, load_torch, say_versions, stop_asked
from saving import Saver

SHARD_MAGIC, SHARD_HEADER_BYTES = 20240520, 1024


# ---- data ----------------------------------------------------------------------------------------

class Sequences:
    """The sequences of all shards: T tokens each, and the one that follows as the last target."""

    def __init__(self, paths, length):
        import numpy  # pylint: disable=import-outside-toplevel
        self.numpy, self.length, self.shards, self.starts = numpy, length, [], []
        self.tokens = 0
        for number, path in enumerate(paths):
            header = numpy.fromfile(path, dtype="<i4", count=SHARD_HEADER_BYTES // 4)
            if len(header) < 3 or header[0] != SHARD_MAGIC:
                raise ValueError(f"{path}: not a token shard")
            shard = numpy.memmap(path, dtype="<u2", mode="r", offset=SHARD_HEADER_BYTES)
            self.shards.append(shard)
            self.tokens += len(shard)
            self.starts += [(number, at) for at in range(0, len(shard) - length, length)]

    def batch(self, torch, order, device):
        """Inputs and targets [len(order), T] of these sequences."""
        rows = [self.shards[n][at:at + self.length + 1] for n, at in
                (self.starts[index] for index in order)]
        tokens = torch.from_numpy(self.numpy.stack(rows).astype("int64"))
        if device == "cuda":
            tokens = tokens.pin_memory().to(device, non_blocking=True)
        return tokens[:, :-1], tokens[:, 1:]


class Order:
    """Indices of sequences, epoch after epoch; shuffled by the seed, or in stored order."""

    def __init__(self, torch, count, shuffled, seed):
        self.torch, self.count, self.shuffled = torch, count, shuffled
        self.generator = torch.Generator().manual_seed(seed)
        self.left = []

    def take(self, count):
        if len(self.left) < count:  # what is too little for a batch is left out
            order = self.torch.randperm(self.count, generator=self.generator).tolist() \
                if self.shuffled else list(range(self.count))
            self.left = order
        taken, self.left = self.left[:count], self.left[count:]
        return taken


# ---- model ---------------------------------------------------------------------------------------

def attend(torch, q, k, v):
    """Causal attention of [batch, heads, length, width]."""
    functional = torch.nn.functional
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    length = q.shape[-2]  # before PyTorch 2
    mask = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
    return torch.softmax(scores.masked_fill(mask, -math.inf), -1) @ v


def make_llama(torch, shape, recomputed, _ranks):
    nn, functional = torch.nn, torch.nn.functional
    again = importlib.import_module("torch.utils.checkpoint").checkpoint
    width, heads = shape["width"], shape["heads"]
    groups, hidden, dim = shape.get("kv_heads", heads), shape["hidden"], width // heads

    class RmsNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            wide = x.float()
            normal = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
            return (normal * self.weight).to(x.dtype)

    def rotate(x, cos, sin):
        """Rotates the pairs (i, i + dim / 2) of [batch, heads, length, dim] by their position."""
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = RmsNorm(), RmsNorm()
            self.q, self.o = (nn.Linear(width, width, bias=False) for _ in range(2))
            self.k, self.v = (nn.Linear(width, groups * dim, bias=False) for _ in range(2))
            self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
            self.down = nn.Linear(hidden, width, bias=False)

        def forward(self, x, cos, sin):
            batch, length, _ = x.shape
            normed = self.attention_norm(x)
            q, k, v = (part.view(batch, length, -1, dim).transpose(1, 2)
                       for part in (self.q(normed), self.k(normed), self.v(normed)))
            cos, sin = cos.to(q.dtype), sin.to(q.dtype)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            k, v = (part.repeat_interleave(heads // groups, dim=1) for part in (k, v))
            y = attend(torch, q, k, v).transpose(1, 2).reshape(batch, length, width)
            x = x + self.o(y)
            normed = self.mlp_norm(x)
            return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(shape["vocab"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.norm = RmsNorm()
            self.head = nn.Linear(width, shape["vocab"], bias=False)
            frequency = 10000.0 ** (-torch.arange(0, dim, 2).float() / dim)
            angle = torch.arange(shape["context"]).float()[:, None] * frequency.repeat(2)
            self.register_buffer("cos", angle.cos(), persistent=False)
            self.register_buffer("sin", angle.sin(), persistent=False)
            for name, parameter in self.named_parameters():
                residual = name.endswith((".o.weight", "down.weight"))
                if parameter.dim() >= 2:
                    std = 0.02 / math.sqrt(2 * shape["layers"]) if residual else 0.02
                    nn.init.normal_(parameter, 0.0, std)

        def forward(self, ids, targets):
            x = self.embedding(ids)
            cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
            for i, block in enumerate(self.blocks):
                x = again(block, x, cos, sin, use_reentrant=False) \
                    if i < recomputed and self.training else block(x, cos, sin)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.flatten(0, 1), targets.reshape(-1))

    return Llama()


def make_gpt2(torch, shape, recomputed, ranks):
    nn, functional = torch.nn, torch.nn.functional
    again = importlib.import_module("torch.utils.checkpoint").checkpoint
    width, heads = shape["width"], shape["heads"]
    sharing = ranks if hasattr(ranks, "take_heads") else None  # they have a part of each layer

    def take_heads(qkv):
        batch, length, _ = qkv.shape
        return (part.view(batch, length, heads, -1).transpose(1, 2)
                for part in qkv.split(width, dim=2))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            qkv = self.qkv(self.ln_1(x))
            q, k, v = sharing.take_heads(qkv) if sharing else take_heads(qkv)
            y = attend(torch, q, k, v).transpose(1, 2).flatten(2)
            x = x + self.projection(y)
            hidden = functional.gelu(self.up(self.ln_2(x)), approximate="tanh")
            return x + self.down(hidden)

    class Gpt2(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte = nn.Embedding(shape["vocab"], width)
            self.wpe = nn.Embedding(shape["context"], width)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["layers"]))
            self.ln_f = nn.LayerNorm(width)
            for name, parameter in self.named_parameters():
                residual = name.endswith(("projection.weight", "down.weight"))
                if parameter.dim() >= 2:
                    std = 0.02 / math.sqrt(2 * shape["layers"]) if residual else 0.02
                    nn.init.normal_(parameter, 0.0, std)
                elif name.endswith(".bias"):
                    nn.init.zeros_(parameter)

        def forward(self, ids, targets, positions=None):
            if positions is None:
                positions = torch.arange(ids.shape[1], device=ids.device)
            x = self.wte(ids) + self.wpe(positions)
            for i, block in enumerate(self.blocks):
                x = again(block, x, use_reentrant=False) \
                    if i < recomputed and self.training else block(x)
            if sharing:
                return sharing.loss(self.ln_f(x), self.wte.weight, targets)
            logits = self.ln_f(x) @ self.wte.weight.t()
            return functional.cross_entropy(logits.flatten(0, 1), targets.reshape(-1))

    return Gpt2()


FAMILIES = {"gpt2": make_gpt2, "llama": make_llama}


def make_model(torch, shape, recomputed, ranks):
    family = shape.get("family", "gpt2")
    if family not in FAMILIES:
        raise Cannot("unsupported", f"the PyTorch peer does not support models of family {family}")
    return FAMILIES[family](torch, shape, recomputed, ranks)


def make_optimizer(torch, model, values, device):
    alike = {}  # a fused update takes tensors of one kind: whole ones, or parts of ranks
    for parameter in model.parameters():
        alike.setdefault((parameter.dim() >= 2, type(parameter)), []).append(parameter)
    groups = [{"params": group, "weight_decay": values["weight_decay"] if is_matrix else 0.0}
              for (is_matrix, _), group in alike.items()]
    fused = {"fused": True} if device == "cuda" else {}
    return torch.optim.AdamW(groups, lr=values["lr"], eps=values["epsilon"],
                             betas=(values["beta1"], values["beta2"]), **fused)


def rate_at(values, step, steps):
    """Linear warm-up, then a cosine down to min_lr."""
    end = values["decay_steps"] or steps
    if step < values["warmup_steps"]:
        return values["lr"] * (step + 1) / values["warmup_steps"]
    if step >= end:
        return values["min_lr"]
    progress = (step - values["warmup_steps"]) / (end - values["warmup_steps"])
    return values["min_lr"] + 0.5 * (1 + math.cos(math.pi * progress)) * \
        (values["lr"] - values["min_lr"])


# ---- training ------------------------------------------------------------------------------------

class Trainer:
    def __init__(self, torch, task, ranks=None):
        self.ranks, self.first = ranks, not ranks or ranks.rank == 0  # the first one speaks
        self.torch, self.plan, self.device = torch, task["case"]["train"], task["device"]
        plan, shards = self.plan, task["shards"]
        self.system = task["system"]
        torch.manual_seed(plan["seed"])
        torch.set_float32_matmul_precision("high" if plan["precision"] == "tf32" else "highest")
        self.train = Sequences(shards["train"], plan["sequence"])
        self.val = Sequences(shards["val"], plan["sequence"])
        self.order = Order(torch, len(self.train.starts), plan["order"] != "sequential",
                           plan["seed"])
        self.micro_batches = plan["tokens_per_step"] // (plan["micro_batch"] * plan["sequence"])
        self.accumulation = self.micro_batches // (ranks.replicas if ranks else 1)
        recomputed = plan["recompute_blocks"] or plan["model"]["layers"] \
            if plan["recompute"].startswith("block") else 0  # gelu_ln: PyTorch keeps these
        raw = make_model(torch, plan["model"], recomputed, ranks).to(self.device)
        raw = ranks.prepare(raw) if ranks else raw
        self.parameters = list(raw.parameters())
        self.optimizer = make_optimizer(torch, raw, plan["optimizer"], self.device)
        self.raw = raw
        self.parallel = ranks.wrap(raw) if ranks else raw
        self.model = self.compiled(self.parallel)
        self.saver = Saver(torch, task if self.first else {**task, "checkpoints": None}, raw,
                           self.optimizer)

    def say(self, event, **values):
        if self.first:
            protocol.say(event, **values)

    def compiled(self, model):
        if not self.system.endswith("-compile"):
            return model
        if not hasattr(self.torch, "compile"):
            raise Cannot("unavailable", f"PyTorch {self.torch.__version__} has no torch.compile")
        return self.torch.compile(model)

    def cast(self):
        return self.torch.autocast(self.device, dtype=self.torch.bfloat16) \
            if self.plan["precision"] == "bf16" else nullcontext()

    def together(self, ids, targets):
        return self.ranks.together(ids, targets) if self.ranks else nullcontext((ids, targets))

    def memory(self):
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if self.device != "cuda":
            return {"resident_bytes": resident}
        cuda = self.torch.cuda
        return {"allocated_bytes": cuda.memory_allocated(),
                "peak_allocated_bytes": cuda.max_memory_allocated(),
                "reserved_bytes": cuda.memory_reserved(), "resident_bytes": resident}

    def step(self, number):
        """One optimizer step; loss, norm, learning rate, and whether to stop after it."""
        plan, total = self.plan, None
        rate = rate_at(plan["optimizer"], number, plan["steps"])
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        batches = [self.order.take(plan["micro_batch"]) for _ in range(self.micro_batches)]
        batches = self.ranks.own(batches) if self.ranks else batches
        for number, batch in enumerate(batches):
            ids, targets = self.train.batch(self.torch, batch, self.device)
            quiet = self.ranks and self.parallel is not self.raw and number + 1 < len(batches)
            with self.ranks.quiet(self.parallel) if quiet else nullcontext(), \
                    self.together(ids, targets) as batch_of_rank:
                with self.cast():
                    loss = self.model(*batch_of_rank) / self.accumulation
                loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        clip = plan["optimizer"]["clip"]
        clipped = self.ranks.clip if self.ranks else self.torch.nn.utils.clip_grad_norm_
        norm = clipped(self.parameters, clip if clip > 0 else math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.ranks:
            mean, stop = self.ranks.agree(total)
            return mean, norm.item(), rate, stop
        return total.item(), norm.item(), rate, stop_asked()  # waits for the device

    def evaluate(self, step):
        plan = self.plan
        if not self.val.starts:
            return None
        started, total = time.perf_counter_ns(), 0.0
        order = Order(self.torch, len(self.val.starts), False, 0)
        batch = min(plan["micro_batch"], len(self.val.starts))
        self.model.eval()
        with self.torch.no_grad(), self.cast():
            for _ in range(plan["eval_batches"]):
                ids, targets = self.val.batch(self.torch, order.take(batch), self.device)
                with self.together(ids, targets) as batch_of_rank:
                    loss = self.model(*batch_of_rank)
                total += (self.ranks.mean(loss) if self.ranks else loss).item()
        self.model.train()
        loss = total / plan["eval_batches"]
        self.say("eval", step=step, loss=finite(loss), tokens=plan["eval_batches"] * batch * plan["sequence"],
            host_ns=time.perf_counter_ns() - started)
        return finite(loss)

    def run(self):
        plan, done, val_loss, stopped = self.plan, 0, None, False
        every = plan["eval_every"]
        while done < plan["steps"] and not stopped:
            if every and done % every == 0:
                val_loss = self.evaluate(done)
            started = time.perf_counter_ns()
            loss, norm, rate, stopped = self.step(done)
            host_ns = time.perf_counter_ns() - started
            self.say("step", step=done, loss=finite(loss), grad_norm=finite(norm), lr=rate,
                tokens=plan["tokens_per_step"], host_ns=host_ns,
                warmup=done < max(1, plan["warmup_timing_steps"]), **self.memory())
            done += 1
            self.saver.tick(done)
        self.saver.finish(done)
        if every and not stopped:
            val_loss = self.evaluate(done)
        self.say("memory", phase="train", peak_resident_bytes=self.memory()["resident_bytes"],
            **({"peak_allocated_bytes": self.torch.cuda.max_memory_allocated(),
                "peak_reserved_bytes": self.torch.cuda.max_memory_reserved()}
               if self.device == "cuda" else {}))
        self.say("result", steps_done=done, stopped=stopped, val_loss=val_loss)


def train(torch, task, ranks=None):
    if task["system"].endswith("-power-of-two") and task["device"] == "cuda":
        torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:1")
    trainer = Trainer(torch, task, ranks)
    trainer.say("start", protocol=1, system=task["system"], device=device_name(torch, task["device"]),
                parameters=sum(p.numel() for p in trainer.parameters),
                tensors=len(trainer.parameters), accumulation=trainer.accumulation,
                train_tokens=trainer.train.tokens, val_tokens=trainer.val.tokens)
    if trainer.first:
        say_versions(task)
    trainer.say("kernel", op="model", kernel=f"torch {torch.__version__}")
    if ranks:
        trainer.say("kernel", op="ranks", kernel=f"{ranks.description}, {ranks.size} x {ranks.backend}")
    trainer.run()


def run(task):
    if several.count(task) > 1:
        several.launch(task)
    else:
        train(load_torch(task["device"]), task)
