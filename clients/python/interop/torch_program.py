# SPDX-License-Identifier: MPL-2.0
"""Trains a small network on scikit-learn's digits with DDP over gloo, under a launcher.

usage: torch_program.py FOLDER      FOLDER has the checkpoint, and gets what happened

$HARM is "raise RANK EPOCH", "kill RANK EPOCH", "hang RANK EPOCH" or "vanish RANK EPOCH": that rank
does so at that epoch of the first attempt.  It vanishes by a kill before it promised the epoch.

Under errbus run the program promises progress, and a slot for each epoch; all else it does under
each launcher.  An allreduce says only that some connection broke.  So a rank whose allreduce fails
waits for the next epochs of the others, and raises its own error from the first that fails.
"""
import contextlib
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
LOOK_S = 5  # for the rank for which an allreduce failed
PROGRESS_S = 10  # for the start of an epoch, which is next to no work: a loaded machine is slow
GLOO_S = int(os.environ.get("GLOO_S", 120))  # what an allreduce waits for


def digits():
    found = load_digits()
    x = torch.tensor(found.data / 16, dtype=torch.float32)
    y = torch.tensor(found.target)
    held = torch.arange(len(y)) % 5 == 0
    return (x[~held], y[~held]), (x[held], y[held])


def harm(folder, rank, epoch, is_promised):
    """What $HARM says, in the first attempt."""
    how, *where = os.environ.get("HARM", "no 0 0").split()
    is_due = is_promised == (how != "vanish") and [str(rank), str(epoch)] == where
    if not is_due or (folder / "harmed").exists():
        return
    party = os.environ.get("ERRBUS_PARTY", f"rank {rank}")
    (folder / "harmed").write_text(json.dumps({"at": time.time(), "party": party}))
    if how == "raise":
        raise ValueError(f"no batch {epoch} of rank {rank}")
    if how in ("kill", "vanish"):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(3600)


class Alone:
    """Without Errbus: nothing is promised, and nothing is known of others."""

    def progress(self, within, where):
        pass

    def epoch(self, number):
        return contextlib.nullcontext()

    def cause(self, epoch):
        return None


class OnBus:
    """What the others are told of this rank, and it of them."""

    def __init__(self, bus, world):
        self.progress, self._bus = bus.progress, bus
        self._parties = [None] * world
        dist.all_gather_object(self._parties, bus.party)

    @contextlib.contextmanager
    def epoch(self, number):
        with self._bus.slot("epoch", seq=number) as slot:
            yield
            slot.commit(b"")

    def cause(self, epoch):
        """Why another rank has no next epoch; None: nobody failed in time.

        No rank is done with the next epoch while this one is in a step of epoch.  So a slot of it
        ends by an error, also where a rank was killed before it had promised that slot."""
        nexts = [(f"{party}/epoch", epoch + 1) for party in self._parties
                 if party != self._bus.party]
        try:
            self._bus.gather(nexts, timeout=LOOK_S)
        except errbus.GatherFailed as failed:
            return next(iter(failed.gathered.errors.values()))
        except errbus.Error:
            pass  # nobody failed in time, or this party is over itself
        return None


def step(ddp, optimizer, x, y, told, epoch):
    """Both passes may wait for all ranks: in the forward pass of the second step the ranks agree on
    the buckets of their gradients.  Who waits there must not be the one that stalls."""
    told.progress(GLOO_S + PROGRESS_S, f"epoch {epoch}, in a step of all ranks")
    optimizer.zero_grad()
    try:
        torch.nn.functional.cross_entropy(ddp(x), y).backward()
    except RuntimeError as error:
        raise error from told.cause(epoch)
    optimizer.step()


def train(folder, rank, world, told):
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
        told.progress(PROGRESS_S, f"epoch {epoch}")
        harm(folder, rank, epoch, is_promised=False)
        with told.epoch(epoch):
            harm(folder, rank, epoch, is_promised=True)
            order = torch.randperm(len(y), generator=torch.Generator().manual_seed(epoch))
            for batch in order[rank::world].split(BATCH):
                step(ddp, optimizer, x[batch], y[batch], told, epoch)
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
    dist.init_process_group("gloo", timeout=timedelta(seconds=GLOO_S))
    if "ERRBUS_TOKEN" in os.environ:
        with errbus.open() as bus:
            train(folder, rank, world, OnBus(bus, world))
            bus.progress(None, None)
            dist.destroy_process_group()
            bus.complete()
    else:
        train(folder, rank, world, Alone())
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
