# SPDX-License-Identifier: MPL-2.0
"""Trains a small network on scikit-learn's digits with DDP over gloo, under a launcher.

usage: torch_program.py FOLDER      FOLDER has the checkpoint, and gets what happened

$HARM is "raise RANK EPOCH", "kill RANK EPOCH" or "hang RANK EPOCH": that rank does so at that epoch
of the first attempt.  Under errbus run the program promises progress; all else it does under each
launcher.
"""
import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

import errbus

EPOCHS, BATCH = 8, 32
PROGRESS_S = 10  # an epoch takes a hundredth of it; a loaded machine may be slow
GLOO_S = int(os.environ.get("GLOO_S", 120))  # what an allreduce waits for


def digits():
    found = load_digits()
    x = torch.tensor(found.data / 16, dtype=torch.float32)
    y = torch.tensor(found.target)
    held = torch.arange(len(y)) % 5 == 0
    return (x[~held], y[~held]), (x[held], y[held])


def harm(folder, rank, epoch):
    """What $HARM says, in the first attempt."""
    how, *where = os.environ.get("HARM", "no 0 0").split()
    if [str(rank), str(epoch)] != where or (folder / "harmed").exists():
        return
    party = os.environ.get("ERRBUS_PARTY", f"rank {rank}")
    (folder / "harmed").write_text(json.dumps({"at": time.time(), "party": party}))
    if how == "raise":
        raise ValueError(f"no batch {epoch} of rank {rank}")
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(3600)


def train(folder, rank, world, promise):
    (x, y), (test_x, test_y) = digits()
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    saved, first = folder / "checkpoint.pt", 0
    if saved.exists():
        state = torch.load(saved)
        model.load_state_dict(state["model"])
        first = state["epoch"]
    for epoch in range(first, EPOCHS):
        promise(PROGRESS_S, f"epoch {epoch}")
        harm(folder, rank, epoch)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(epoch))
        for batch in order[rank::world].split(BATCH):
            loss = torch.nn.functional.cross_entropy(ddp(x[batch]), y[batch])
            optimizer.zero_grad()
            promise(GLOO_S + PROGRESS_S, f"epoch {epoch}, in the allreduce")
            loss.backward()
            promise(PROGRESS_S, f"epoch {epoch}")
            optimizer.step()
        if rank == 0:
            torch.save({"model": model.state_dict(), "epoch": epoch + 1}, folder / "new.pt")
            (folder / "new.pt").rename(saved)
    if rank == 0:
        right = (model(test_x).argmax(1) == test_y).float().mean()
        found = {"accuracy": float(right), "first_epoch": first, "world": world}
        (folder / "result.json").write_text(json.dumps(found))


@errbus.record
def main():
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    bus = errbus.open() if "ERRBUS_TOKEN" in os.environ else None
    promise = bus.progress if bus else lambda within, where: None
    dist.init_process_group("gloo", timeout=timedelta(seconds=GLOO_S))
    train(folder, rank, world, promise)
    promise(None, None)
    dist.destroy_process_group()
    if bus:
        bus.complete()
        bus.close()


if __name__ == "__main__":
    main()
