"""Several ranks under torchrun, as its users would run them: here DistributedDataParallel, in
sharing.py ranks that share layers or sequences.

The peer starts torchrun with one process a rank, which is this file, and forwards the output of
rank 0. Accumulation micro-steps send nothing (no_sync); rank r processes the same micro-batches of
a step as our rank r. On the CPU ranks use gloo, on GPUs NCCL.
"""
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import protocol
from protocol import Cannot, load_torch, say

PR_SET_PDEATHSIG = 1
TASK, EVENTS, STOP = "task.json", "events", "stop"  # in a folder of the case


def count(task):
    """Ranks of a case; 1 without a mesh."""
    mesh, ranks = task["case"].get("train", {}).get("mesh", {}), 1
    for degree in ("data", "tensor", "context"):
        ranks *= int(mesh.get(degree, 1))
    return ranks


def die_with_parent():
    """Also torchrun's ranks, which have their own sessions, end with the process that started them."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


# ---- the peer's side -----------------------------------------------------------------------------

def check(torch, task):
    mesh, size, device = task["case"]["train"]["mesh"], count(task), task["device"]
    if mesh.get("faults"):
        raise Cannot("unsupported", "train.mesh.faults: this peer cannot restart lost ranks")
    if mesh.get("sharding") in ("zero2", "zero3"):
        raise Cannot("unsupported", f"train.mesh.sharding is {mesh['sharding']}: this peer runs "
                     "DistributedDataParallel, which does not shard")
    if task["system"].endswith("-dcp"):
        raise Cannot("unsupported", f"{task['system']} runs on one rank only")
    if not torch.distributed.is_available():
        raise Cannot("unavailable", f"PyTorch {torch.__version__} was built without distributed")
    if device == "cuda" and torch.cuda.device_count() < size:
        raise Cannot("unavailable", f"train.mesh has {size} ranks, but PyTorch found "
                     f"{torch.cuda.device_count()} GPUs")
    has = torch.distributed.is_nccl_available() if device == "cuda" \
        else torch.distributed.is_gloo_available()
    if not has:
        raise Cannot("unavailable", f"PyTorch {torch.__version__} has no "
                     f"{'NCCL' if device == 'cuda' else 'gloo'}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(task, folder):
    size = count(task)
    with open(os.path.join(folder, TASK), "w", encoding="utf-8") as file:
        json.dump(task, file)
    environment = dict(os.environ, NCCL_NVLS_ENABLE="0")
    share = max(1, len(os.sched_getaffinity(0)) // size)
    environment.setdefault("OMP_NUM_THREADS", str(share))
    # A whole model, which buckets split into many graphs: here the pool of compilers, which peer.py
    # switches off for kernels, is useful.
    if environment.get("TORCHINDUCTOR_COMPILE_THREADS") == "1":
        environment["TORCHINDUCTOR_COMPILE_THREADS"] = str(min(8, share))
    # Standard output is for events: the ranks' output is written to the log. PyTorch 1.13 under Python 3.11
    # starts no ranks without tee and redirects of one of the two streams.
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={size}", "--nnodes=1",
               "--node_rank=0", "--master_addr=127.0.0.1", f"--master_port={free_port()}", "--tee=1",
               "--redirects=1", f"--log_dir={folder}", "--monitor_interval=0.1",
               os.path.abspath(__file__), folder]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment,
                            preexec_fn=die_with_parent)


def lines_of(torchrun, folder, events):
    """The events of ranks, as they arrive; asks rank 0 to stop when the peer is asked to."""
    heard, rest = [events, sys.stdin], b""
    while True:
        over = torchrun.poll() is not None
        ready = select.select(heard, [], [], 0 if over else 0.1)[0]
        if sys.stdin in ready:
            heard.remove(sys.stdin)
            with open(os.path.join(folder, STOP), "w", encoding="utf-8"):
                pass
        if events in ready:
            *lines, rest = (rest + os.read(events, 65536)).split(b"\n")
            yield from lines
        elif over:
            return


def launch(task):
    """Runs the case on its ranks; the output of rank 0 is copied to standard output."""
    import sharing  # pylint: disable=import-outside-toplevel,cyclic-import
    torch = load_torch(task["device"])
    check(torch, task)
    sharing.check(torch, task)
    last = None
    with tempfile.TemporaryDirectory() as folder:
        os.mkfifo(os.path.join(folder, EVENTS))
        events = os.open(os.path.join(folder, EVENTS), os.O_RDWR)  # open for writing: it never ends
        with start(task, folder) as torchrun:
            for line in lines_of(torchrun, folder, events):
                if last not in ("error", "result"):  # the first rank that fails says why
                    last = json.loads(line)["event"]
                    os.write(sys.stdout.fileno(), line + b"\n")
        os.close(events)
    if last == "error":
        raise SystemExit(5)
    if last != "result":
        raise RuntimeError(f"torchrun ended with code {torchrun.returncode} before rank 0 gave a "
                           "result")


# ---- a rank's side -------------------------------------------------------------------------------

class Ranks:
    """This rank among the others of its torchrun, each with its own micro-batches."""

    description = "DistributedDataParallel"

    def __init__(self, torch, task, folder):
        self.torch, self.device = torch, task["device"]
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.replicas = self.size  # ranks that share a step's micro-batches
        self.stop_path = os.path.join(folder, STOP)
        self.bucket_mb = task["case"]["train"]["mesh"].get("bucket_mb", 25)
        if self.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        self.backend = "nccl" if self.device == "cuda" else "gloo"
        torch.distributed.init_process_group(self.backend)

    def prepare(self, model):
        """The model, before its parameters are passed to the optimizer."""
        return model

    def wrap(self, model):
        parallel = self.torch.nn.parallel.DistributedDataParallel
        return parallel(model, bucket_cap_mb=self.bucket_mb, gradient_as_bucket_view=True)

    def quiet(self, model):
        """For a micro-batch that is not the step's last one."""
        return model.no_sync()

    @contextmanager
    def together(self, ids, targets):
        """Around forward and backward of a micro-batch; returns the model's arguments."""
        yield ids, targets

    def clip(self, parameters, bound):
        """Scales gradients to a norm of at most bound; returns the norm before."""
        return self.torch.nn.utils.clip_grad_norm_(parameters, bound)

    def mean(self, loss):
        """Of ranks that have parts of the same sequences; others evaluate all of them."""
        return loss

    def own(self, batches):
        """This rank's micro-batches of a step."""
        share = len(batches) // self.size
        return batches[self.rank * share:(self.rank + 1) * share]

    def agree(self, loss):
        """Mean loss of all ranks, and whether rank 0 was asked to stop."""
        stop = self.rank == 0 and os.path.exists(self.stop_path)
        values = self.torch.stack([loss.float() / self.size,
                                   self.torch.full_like(loss, float(stop), dtype=self.torch.float32)])
        self.torch.distributed.all_reduce(values)
        mean, stopped = values.tolist()  # waits for the device
        return mean, stopped > 0


def main():
    die_with_parent()
    import sharing  # pylint: disable=import-outside-toplevel,cyclic-import
    import training  # pylint: disable=import-outside-toplevel,cyclic-import
    folder = sys.argv[1]
    with open(os.path.join(folder, TASK), encoding="utf-8") as file:
        task = json.load(file)
    protocol.SAY["to"] = open(os.path.join(folder, EVENTS), "w", encoding="utf-8")
    try:
        torch = load_torch(task["device"])
        training.train(torch, task, sharing.make(torch, task, folder))
        torch.distributed.destroy_process_group()
    except Cannot as reason:
        say("error", status=reason.args[0], message=reason.args[1])
        os._exit(4)
    except Exception as error:  # pylint: disable=broad-except # whatever it is, the record has it
        memory = "OutOfMemory" in type(error).__name__ or isinstance(error, MemoryError)
        say("error", status="out of memory" if memory else "internal error",
            message=f"rank {os.environ['RANK']}: {type(error).__name__}: {error}"[:900])
        os._exit(5)  # the others may wait for this rank


if __name__ == "__main__":
    main()
