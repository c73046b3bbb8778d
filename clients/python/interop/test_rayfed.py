# SPDX-License-Identifier: MPL-2.0
"""RayFed with errbus.rayfed in place of its gRPC: one program, three parties, each with a Ray of
its own.  The broker is killed and started again while they work, and then alice is killed."""
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import pytest
from broker import Broker

pytest.importorskip("ray", reason="ray is not installed here")
pytest.importorskip("fed", reason="rayfed is not installed here")

HERE = os.path.dirname(os.path.abspath(__file__))
PARTIES = ("alice", "bob", "carol")
GRACE_S = 1  # reconnect_grace of a party
STEP_S = 180  # a loaded machine starts Ray slowly
# From kill -9 to the error: the grace, and a second on a machine with no other load (TEST_QUIET=1).
TOLD_S = GRACE_S + (1 if os.environ.get("TEST_QUIET") else 10)


class Party:
    """A program; its stages come by a thread that notes when."""

    def __init__(self, name, broker, folder, *words):
        self.stages = queue.Queue()
        self.log = open(folder / f"{name}.log", "w+")
        self.process = subprocess.Popen(
            [sys.executable, f"{HERE}/rayfed_program.py", name, *words],
            env=dict(os.environ, ERRBUS_SERVER=broker.endpoint), start_new_session=True,
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            stage, _, found = line.partition(" ")
            if found.startswith("{"):
                self.stages.put((stage, json.loads(found), time.monotonic()))

    def until(self, stage, **found):
        """What it told at that stage, and when."""
        while True:
            try:
                name, told, at = self.stages.get(timeout=STEP_S)
            except queue.Empty:
                self.log.seek(0)
                raise AssertionError(f"no {stage}: {self.log.read()[-4000:]}") from None
            if name == stage and found.items() <= told.items():
                return told, at

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        self.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each party told at each stage, in one run of the program."""
    folder = tmp_path_factory.mktemp("rayfed")
    found = {}
    with Broker(folder / "journal") as broker:
        parties = {name: Party(name, broker, folder) for name in PARTIES}
        try:
            parties["bob"].until("round", number=3)
            broker.kill()
            broker.start()
            for stage in ("values", "failed", "waiting"):
                for name in PARTIES:
                    found[stage, name], _ = parties[name].until(stage)
            killed_at = time.monotonic()
            parties["alice"].kill()
            for name in ("bob", "carol"):
                found["killed", name], at = parties[name].until("killed")
                found["seconds", name] = at - killed_at
        finally:
            for party in parties.values():
                party.close()
    return found


@pytest.mark.parametrize("name", PARTIES)
def test_a_broker_that_is_killed_and_started_again_loses_nothing(told, name):
    assert told["values", name]["sums"] == [300_000.0 * (turn + 1) for turn in range(12)]


@pytest.mark.parametrize("name", ["bob", "carol"])
def test_the_error_of_a_task_names_the_line_of_alice(told, name):
    """carol has no edge to alice: she waits for a task of bob, which had the error as argument."""
    failed = told["failed", name]
    assert failed["raised"] == "FedRemoteError"
    assert failed["party"] == "alice" and failed["type"].endswith("ValueError")
    assert 'raise ValueError("no batch left")  # the line of alice' in failed["trace"]


@pytest.mark.parametrize("name", ["bob", "carol"])
def test_who_waits_for_a_killed_party_is_told(told, name):
    killed = told["killed", name]
    assert killed["raised"] == "FedRemoteError", "fed.get() does not wait for ever"
    assert killed["party"] == "alice" and killed["kind"] == "party_lost"


def test_it_is_told_soon(told, capsys):
    took = {name: told["seconds", name] for name in ("bob", "carol")}
    with capsys.disabled():
        print("\nfrom kill -9 to the error:", ", ".join(f"{n} {s:.2f} s" for n, s in took.items()))
    assert max(took.values()) < TOLD_S


def test_a_program_joins_twice(tmp_path):
    """The ids of RayFed begin anew, while a party may still be in its first run."""
    with Broker() as broker:
        parties = [Party(name, broker, tmp_path, "again") for name in ("alice", "bob")]
        try:
            for value in (7, 8):
                for party in parties:
                    assert party.until("again")[0]["got"] == value + 1
        finally:
            for party in parties:
                party.close()
