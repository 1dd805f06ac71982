"""Checkpoints of PyTorch's training cases: torch.save, or its distributed checkpoints (-dcp).

torch.save always blocks training: PyTorch has no asynchronous form of it. With
-dcp an asynchronous case is saved by async_save, another one by save. Files are neither synced nor
hashed, as in PyTorch.
"""
import os
import shutil
import time

from protocol import say


class Saver:
    """Saves at the case's steps and reports each save when it is found complete."""

    def __init__(self, torch, task, model, optimizer):
        self.torch, self.model, self.optimizer = torch, model, optimizer
        self.plan = task["case"]["train"].get("checkpoint")
        self.folder = (task.get("checkpoints") or {}).get("folder")
        self.distributed = task["system"].endswith("-dcp")
        self.steps, self.pending, self.kept = task["case"]["train"]["steps"], None, []
        self.device = task["device"]
        if not self.folder or not self.plan:
            self.plan = None
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        if self.distributed:
            self.open_group()

    def open_group(self):
        import torch.distributed as group  # pylint: disable=import-outside-toplevel
        import torch.distributed.checkpoint as dcp  # pylint: disable=import-outside-toplevel
        self.group, self.dcp = group, dcp
        group.init_process_group("cpu:gloo,cuda:nccl" if self.device == "cuda" else "gloo", rank=0,
                                 world_size=1, init_method=f"file://{self.folder}/rendezvous")

    def content(self):
        state = {"model": self.model.state_dict()}
        if self.plan["content"] == "state":
            state["optimizer"] = self.optimizer.state_dict()
        return state

    def size_bytes(self):
        numbers = sum(p.numel() for p in self.model.parameters())
        return 4 * numbers * (3 if self.plan["content"] == "state" else 1)

    def path(self, step):
        return os.path.join(self.folder, f"step-{step}")

    def begin(self, step):
        started, job = time.perf_counter_ns(), None
        if not self.distributed:
            self.torch.save(self.content(), self.path(step))
        elif self.plan["asynchronous"]:
            job = self.dcp.async_save(self.content(), checkpoint_id=self.path(step))
        else:
            self.dcp.save(self.content(), checkpoint_id=self.path(step))
        self.pending = (step, job, started, time.perf_counter_ns() - started)
        self.kept.append(step)

    def end(self, done, wait=False):
        if self.pending and (not self.pending[1] or wait or self.pending[1].done()):
            step, job, started, blocked = self.pending
            if job:
                job.result()
            say("save", kind="saved", step=step, seen_step=done, blocked_ns=blocked,
                host_ns=time.perf_counter_ns() - started, size_bytes=self.size_bytes())
            self.pending = None
            while 0 < self.plan["max_to_keep"] < len(self.kept):
                self.remove(self.kept.pop(0))

    def remove(self, step):
        if os.path.isdir(self.path(step)):
            shutil.rmtree(self.path(step))
        else:
            os.unlink(self.path(step))

    def tick(self, done):
        """After each step: reports completed saves, begins a save that is due."""
        if not self.plan:
            return
        self.end(done)
        every = self.plan["every_steps"]
        if every and done % every == 0 and not self.pending:
            self.begin(done)
            if not self.pending[1]:
                self.end(done)

    def finish(self, done):
        if not self.plan:
            return
        self.end(done, wait=True)
        if self.plan["at_end"] and (not self.kept or self.kept[-1] != done):
            self.begin(done)
            self.end(done, wait=True)
        if self.plan["at_end"] and self.plan["reload"]:
            self.load(done)
        if self.distributed:
            self.group.destroy_process_group()

    def load(self, done):
        started = time.perf_counter_ns()
        if self.distributed:
            state = self.content()
            self.dcp.load(state, checkpoint_id=self.path(done))
        else:
            state = self.torch.load(self.path(done), map_location=self.device)
        self.model.load_state_dict(state["model"])
        if "optimizer" in state:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        say("save", kind="loaded", step=done, seen_step=done,
            host_ns=time.perf_counter_ns() - started, size_bytes=self.size_bytes())
