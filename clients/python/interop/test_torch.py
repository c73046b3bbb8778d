# SPDX-License-Identifier: MPL-2.0
"""PyTorch's DDP under errbus run: a rank raises, is killed or hangs.  The verdict names it, the
next attempt goes on at the checkpoint, and the model is as good as that of an undisturbed run."""
import json
import os
import re
import subprocess
import sys
import threading

import pytest
from broker import Broker

import errbus

pytest.importorskip("torch", reason="torch is not installed here")

HERE = os.path.dirname(os.path.abspath(__file__))
RUN_S = 300  # a loaded machine imports torch slowly


class Told:
    """What a run told: the events of its job, and what the program left in its folder."""

    def __init__(self, folder, harm):
        self.events = []
        with Broker() as broker:
            tap = errbus.Tap(broker.endpoint, job="train", from_id=0)
            reader = threading.Thread(target=lambda: self.events.extend(tap))
            reader.start()
            words = "--nproc 4 --min 3 --max 4 --max-restarts 2 --join-window 5 -j train -p rank"
            self.ran = subprocess.run(
                [os.environ["ERRBUS"], "run", *words.split(), "--disclosure", "full", "--log-dir",
                 str(folder / "log"), "--", sys.executable, f"{HERE}/torch_program.py", folder],
                env=dict(os.environ, ERRBUS_SERVER=broker.endpoint, HARM=harm),
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=RUN_S)
            with errbus.Admin(broker.endpoint) as admin:
                self.attempt = admin.job("train").attempt
            tap.close()
            reader.join()
        assert self.ran.returncode == 0, self.ran.stderr[-4000:]
        self.result = json.loads((folder / "result.json").read_text())
        harmed = folder / "harmed"
        self.harmed = json.loads(harmed.read_text()) if harmed.exists() else None

    def verdict(self):
        """The root of all errors of the first attempt, and seconds from the harm to that event."""
        event = next(event for event in self.events if event.name == "verdict.final")
        return event.error.root, event.at - self.harmed["at"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return Told(tmp_path_factory.mktemp("undisturbed"), "no 0 0")


def test_a_run_that_nobody_disturbs_has_no_verdict(undisturbed):
    assert undisturbed.attempt == 1 and undisturbed.result["accuracy"] > 0.85
    assert "verdict.final" not in {event.name for event in undisturbed.events}


@pytest.mark.parametrize("harm, kind, type_, text", [
    ("raise 2 3", "application", "python.ValueError", "no batch 3 of rank 2"),
    ("kill 1 3", "application", "run.signal", "SIGKILL"),
    ("vanish 1 3", "application", "run.signal", "SIGKILL"),
    ("hang 3 3", "stalled", "errbus.stalled", "epoch 3"),
])
def test_the_verdict_names_the_rank_and_training_goes_on(undisturbed, tmp_path, harm, kind, type_,
                                                         text):
    told = Told(tmp_path, harm)
    root, seconds = told.verdict()
    print(f"{harm}: {root} after {seconds:.2f} s")
    assert root.party == told.harmed["party"]
    assert (root.kind, root.type) == (kind, type_) and text in root.message
    if harm.startswith("raise"):
        assert "in harm\n    raise ValueError(" in root.remote_traceback
    if harm.startswith("hang"):  # the broker made this error; the rank says where it is when stopped
        assert re.search(r'torch_program\.py", line \d+ in harm$', told.ran.stderr, re.M)
    assert told.attempt == 2 and told.result["first_epoch"] == 3
    assert abs(told.result["accuracy"] - undisturbed.result["accuracy"]) < 0.03
