#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""Federated averaging: four silos and an aggregator, each a process; three models are enough.

usage: fedavg.py [--kill ROUND]     with a broker at $ERRBUS_SERVER

Each silo has a part of the data (clients/fedavg/breast_cancer.csv), which never leaves it.  In each
round it trains the aggregator's model, and the aggregator averages what comes.  With --kill, the
last silo is killed at the start of that round: the others go on, and the output says why.
"""
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np

import errbus

SILOS, NEED, ROUNDS, STEPS, RATE = 4, 3, 8, 40, 0.5
DATA = Path(__file__).resolve().parents[2] / "fedavg" / "breast_cancer.csv"
Array = np.ndarray[Any, Any]


def load() -> Tuple[Array, Array]:
    rows = np.loadtxt(DATA, delimiter=",", skiprows=1)
    return rows[:, :-1], rows[:, -1]


def parts() -> Tuple[Array, List[Array]]:
    """The rows of the test, and those of each silo."""
    index = np.arange(len(load()[1]))
    held = index % 5 == 0
    return index[held], [index[~held][i::SILOS] for i in range(SILOS)]


def predict(weights: Array, x: Array) -> Any:
    return 1 / (1 + np.exp(-np.clip(x @ weights[:-1] + weights[-1], -30, 30)))


def train(weights: Array, x: Array, y: Array) -> Array:
    for _ in range(STEPS):
        off = (predict(weights, x) - y) / len(y)
        weights = weights - RATE * np.append(x.T @ off, off.sum())
    return weights


def silo(number: int) -> None:
    x, y = load()
    mine = parts()[1][number]
    x, y = x[mine], y[mine]
    with errbus.open(disclosure="full") as bus:
        bus.publish("sums", np.array([x.sum(0), (x * x).sum(0), np.full(x.shape[1], len(x))]))
        scale = np.frombuffer(bus.get("aggregator/scale", 0)).reshape(2, -1)
        x = (x - scale[0]) / scale[1]
        for turn in range(ROUNDS):
            with bus.slot("model", seq=turn) as slot:
                weights = np.frombuffer(bus.get("aggregator/model", turn))
                slot.commit(train(weights, x, y))
        bus.get("aggregator/done", 0)
        bus.complete()


def aggregate(children: List["subprocess.Popen[bytes]"], kill: int) -> None:
    x, y = load()
    test = parts()[0]
    names = [f"silo{i}" for i in range(SILOS)]
    with errbus.open(party="aggregator") as bus:
        got = bus.gather([(f"{name}/sums", 0) for name in names])
        total = np.sum([np.frombuffer(v).reshape(3, -1) for v in got.values.values()], axis=0)
        mean = total[0] / total[2]
        deviation = np.sqrt(total[1] / total[2] - mean**2)
        x = (x[test] - mean) / deviation
        bus.publish("scale", np.array([mean, deviation]))
        weights = np.zeros(x.shape[1] + 1)
        for turn in range(ROUNDS):
            if turn == kill:
                children[-1].send_signal(signal.SIGKILL)
            bus.publish("model", weights)
            got = bus.gather([(f"{name}/model", turn) for name in names], need=NEED)
            for (topic, _), error in got.errors.items():
                print(f"  {topic.split('/')[0]} is missing: {error.root.type}", flush=True)
            weights = np.mean([np.frombuffer(v) for v in got.values.values()], axis=0)
            right = ((predict(weights, x) > 0.5) == y[test]).mean()
            print(f"round {turn}: {len(got.values)} models, accuracy {right:.3f}", flush=True)
        bus.publish("done", b"")
        bus.complete()


def main() -> None:
    if "--silo" in sys.argv:
        silo(int(sys.argv[-1]))
        return
    kill = int(sys.argv[-1]) if "--kill" in sys.argv else -1
    children = [
        subprocess.Popen([sys.executable, __file__, "--silo", str(i)],
                         env=dict(os.environ, ERRBUS_PARTY=f"silo{i}"))
        for i in range(SILOS)
    ]
    try:
        aggregate(children, kill)
    finally:
        for child in children:
            child.wait()


if __name__ == "__main__":
    main()
