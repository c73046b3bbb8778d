# SPDX-License-Identifier: MPL-2.0
"""A rank of the node $NODE under torchrun: it calls allreduce until a test stops it.

usage: torchrun_program.py FOLDER

A rank of the node raises when there is a file FOLDER/$NODE.raise, and hangs when there is a file
FOLDER/$NODE.hang; before, it removes that file.  All ranks end well when there is a FOLDER/stop.
"""
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import errbus

HANG_S = 15  # what an allreduce waits for; ranks come together without such a limit
STEP_S = 0.05

folder, node = Path(sys.argv[1]), os.environ["NODE"]


def is_asked(word):
    try:
        (folder / f"{node}.{word}").unlink()
    except FileNotFoundError:
        return False
    return True


@errbus.record
def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = dist.new_group(timeout=timedelta(seconds=HANG_S))
    line = f"begin {dist.get_rank()} of {dist.get_world_size()}\n"
    os.write(sys.stdout.fileno(), line.encode())  # at once: all ranks of a node have one output
    while True:
        if is_asked("raise"):
            raise ValueError(f"no batch left at {node}")
        if is_asked("hang"):
            time.sleep(3600)
        stops = torch.tensor([float((folder / "stop").exists())])
        dist.all_reduce(stops, group=group)
        if stops > 0:
            break
        time.sleep(STEP_S)
    dist.destroy_process_group()


main()
