"""Helpers for the worker protocol (harness/run/PROTOCOL.md): events, refusals, the device."""
import importlib
import json
import math
import select
import sys
from importlib import metadata


SAY = {"to": None}  # a file; None: standard output


def say(event, **values):
    """One event, a JSON object on a line. None is null: a number that is not finite."""
    print(json.dumps({"event": event, **values}, allow_nan=False), file=SAY["to"], flush=True)


def read_task():
    """The task, one line of JSON; unbuffered, so that later input can be waited for."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = sys.stdin.buffer.raw.read(1)
        if not byte:
            break
        line += byte
    return json.loads(line)


def stop_asked():
    """Any input after the task, or the end of input, means: stop after this step."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def import_ahead(modules):
    """Imports modules that a case may need, one after the other, until the task arrives."""
    for module in modules:
        if stop_asked():
            return
        try:
            importlib.import_module(module)
        except ImportError:
            return


class Cannot(Exception):
    """A case that cannot run here: status, message."""


def load_torch(device):
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Cannot("unavailable", f"PyTorch cannot be imported: {error}") from error
    if device == "cuda" and not torch.cuda.is_available():
        raise Cannot("unavailable", f"PyTorch {torch.__version__} found no CUDA device")
    return torch


def say_versions(task):
    """Writes the packages of this interpreter as 'pip freeze' does, if the task requests it."""
    if task.get("versions"):
        packages = {f"{found.metadata['Name']}=={found.version}" for found in metadata.distributions()}
        interpreter = f"python=={sys.version.split()[0]}"
        say("versions", packages="\n".join([interpreter] + sorted(packages, key=str.lower))[:60000])


def finite(value):
    return value if math.isfinite(value) else None


def device_name(torch, device):
    return torch.cuda.get_device_name() if device == "cuda" else "CPU"
