#!/usr/bin/env python3
"""peer_tasks.py PEER - runs the Python peer PEER once for each line of standard input.

Each task has a process of its own, as bt-bench would give it, but all are forked from this one,
which has imported PyTorch: that takes two seconds, a task of a test a tenth.
Exit 0 when every peer did, else the first other exit code.
"""
import os
import runpy
import sys

import torch  # noqa: F401 # pylint: disable=unused-import


def serve(peer, line):
    """One task: the peer reads `line`, and then the end of its input."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.dup2(read, 0)
        sys.stdin = open(0, encoding="utf-8")
        runpy.run_path(peer, run_name="__main__")
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as task:
        task.write(line)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(peer):
    sys.path.insert(0, os.path.dirname(peer))
    with open(0, encoding="utf-8", closefd=False) as tasks:
        codes = [serve(peer, line) for line in tasks]
    return next((code for code in codes if code != 0), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
