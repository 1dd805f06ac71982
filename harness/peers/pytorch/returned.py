"""Inputs given by a task and outputs requested by it (harness/run/PROTOCOL.md).

The first elements of an input are in a file, the others repeat them; of each output the task lists
windows (first element, runs, stride between runs, length of a run), which are written one after
the other. The recorder compares them with its own reference.
"""
import ctypes
import os

from protocol import say

DTYPES = {"f32": "float32", "bf16": "bfloat16", "f64": "float64", "i32": "int32"}


class Returned:
    """The task's key "returns"; without it no outputs are requested."""

    def __init__(self, torch, task, device):
        asked = task.get("returns", {})
        self.torch, self.device, self.folder = torch, device, asked.get("folder")
        self.inputs = {each["name"]: each for each in asked.get("inputs", [])}
        self.outputs = {each["name"]: each for each in asked.get("outputs", [])}
        self.which = 0  # 1: the values of the call whose outputs are returned

    def asked(self):
        return bool(self.outputs)

    def gives(self, name):
        return name in self.inputs

    def dtype(self, described):
        return getattr(self.torch, DTYPES[described["dtype"]])

    def load(self, name):
        """All elements of an input, flat."""
        given = self.inputs[name]
        with open(os.path.join(self.folder, f"{name}.{self.which}"), "rb") as file:
            data = bytearray(file.read())
        tile = self.torch.frombuffer(data, dtype=self.dtype(given)).to(self.device)
        count = given["count"]
        return tile.repeat(-(-count // tile.numel()))[:count]

    def write(self, names, tensors, precision=""):
        """Writes outputs and reports it. `precision`: the one they were computed in, if not the
        case's."""
        if sorted(names) != sorted(self.outputs):
            return  # they stay self-reported
        for name, tensor in zip(names, tensors):
            described = self.outputs[name]
            flat = tensor.detach().contiguous().view(-1).to(self.dtype(described))
            with open(os.path.join(self.folder, f"{name}.out"), "wb") as file:
                for first, runs, stride, length in described["windows"]:
                    span = flat[first:first + (runs - 1) * stride + length]
                    part = span.as_strided((runs, length), (stride, 1), span.storage_offset())
                    part = part.contiguous().cpu()
                    file.write(ctypes.string_at(part.data_ptr(),
                                                part.numel() * part.element_size()))
        say("outputs", **({"precision": precision} if precision else {}))
