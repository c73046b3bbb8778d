# SPDX-License-Identifier: MPL-2.0
"""A program of RayFed, as a user writes it: each party starts it with its own name.  With the word
"again" it joins, exchanges a value and leaves, twice in one process.

It tells on standard output what each stage gave: "STAGE {json}".
"""
import json
import sys
import time
import traceback

import fed
import numpy as np
import ray

import errbus.rayfed

ROUNDS = 12
START_MS = 170_000  # a loaded machine starts an actor of Ray slowly
PARTIES = ("alice", "bob", "carol")


@fed.remote
def make(number):
    return np.full(300_000, number, "f8")


@fed.remote
def add(array, number):
    return array + number


@fed.remote
def fail():
    raise ValueError("no batch left")  # the line of alice


@fed.remote
def hang():
    time.sleep(3600)


def tell(stage, **found):
    print(stage, json.dumps(found), flush=True)


def values():
    sums = []
    for turn in range(ROUNDS):
        made = make.party("alice").remote(turn)
        sums.append(float(fed.get(add.party("bob").remote(made, 1)).sum()))
        tell("round", number=turn)
        time.sleep(0.1)  # the broker is killed in one of these rounds
    tell("values", sums=sums)


def told(stage, wanted):
    """What fed.get() raises, and what Errbus says of it."""
    try:
        fed.get(wanted)
        tell(stage, raised=None)
    except ray.exceptions.RayError as error:
        cause = error.cause
        below = getattr(cause, "_cause", None)
        root = getattr(below, "root", None)
        tell(stage, raised=type(cause).__name__, text=str(cause),
             party=getattr(root, "party", None), type=getattr(root, "type", None),
             kind=getattr(root, "kind", None), trace=getattr(root, "remote_traceback", None))


def join(party):
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    fed.init(
        addresses={name: f"127.0.0.1:{20000 + i}" for i, name in enumerate(PARTIES)},
        party=party,
        logging_level="error",
        job_name="interop",
        config={
            "cross_silo_comm": {"expose_error_trace": True, "timeout_in_ms": START_MS},
            "barrier_on_initializing": "again" not in sys.argv,
        },
        sender_proxy_cls=errbus.rayfed.Sender,
        receiver_proxy_cls=errbus.rayfed.Receiver,
    )
    tell("ready")


def leave():
    fed.shutdown()
    ray.shutdown()


def again(party):
    for value in (7, 8):
        join(party)
        made = make.party("alice").remote(value)
        tell("again", got=float(fed.get(add.party("bob").remote(made, 1)).max()))
        leave()


def main(party):
    join(party)
    values()
    told("failed", add.party("bob").remote(fail.party("alice").remote(), 1))
    tell("waiting")
    told("killed", hang.party("alice").remote())
    leave()
    tell("over")


try:
    (again if "again" in sys.argv else main)(sys.argv[1])
except BaseException:
    traceback.print_exc()
    raise
