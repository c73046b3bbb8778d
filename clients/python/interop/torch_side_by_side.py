# SPDX-License-Identifier: MPL-2.0
"""What errbus run and torchrun name as the root of the same three failures, and after how long.

usage: torch_side_by_side.py [HARM ...]     prints a row of a table for each; default: all

Seconds are those to the first verdict, of errbus run, and to the end of the launcher.

Each has one attempt, for torchrun names its root when the attempts are over.  An allreduce waits
for 20 s: without Errbus that is what ends a hang.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from broker import Broker

import errbus

HERE = os.path.dirname(os.path.abspath(__file__))
HARMS = ("raise 2 3", "kill 1 3", "hang 3 3")
GLOO_S = "20"
END_S = 200


def harmed_at(folder):
    return json.loads((folder / "harmed").read_text())["at"]


def until_final(tap):
    for event in tap:
        yield event
        if event.name == "verdict.final":
            return


def under_errbus(folder, harm):
    """Root, seconds to the first verdict, and to the end of the launcher."""
    events = []
    with Broker() as broker:
        tap = errbus.Tap(broker.endpoint, job="train", from_id=0)
        reader = threading.Thread(target=lambda: events.extend(until_final(tap)))
        reader.start()
        subprocess.run(
            [os.environ["ERRBUS"], "run", "--nproc", "4", "--join-window", "1", "-j", "train", "-p",
             "rank", "--log-dir", str(folder / "log"), "--", sys.executable,
             f"{HERE}/torch_program.py", folder],
            env=dict(os.environ, ERRBUS_SERVER=broker.endpoint, HARM=harm, GLOO_S=GLOO_S),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=END_S)
        ended = time.time()
        reader.join()
        tap.close()
    at = harmed_at(folder)
    first = next(event for event in events if event.name.startswith("verdict."))
    final = next(event for event in events if event.name == "verdict.final")
    root = final.error.root
    return f"{root.party}: {root.type}: {root.message}", first.at - at, ended - at


def under_torchrun(folder, harm):
    words = ["torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    ran = subprocess.run(
        [sys.executable, "-m", *words, f"{HERE}/torch_program.py", folder],
        env=dict(os.environ, HARM=harm, GLOO_S=GLOO_S), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=END_S)
    ended = time.time()
    told = ran.stdout[ran.stdout.rindex("Root Cause (first observed failure)"):]
    rank = re.search(r"rank *: (\d+)", told)[1]
    code = re.search(r"exitcode *: (.*)", told)[1]
    trace = re.search(r"error_file: .*\n *traceback : (.*(?:\n.*){0,60})", told)[1]
    lines = [line.strip() for line in trace.splitlines()]
    said = [line for line in lines if re.match(r"[\w.]+(Error|Exception):|Signal", line)]
    return f"rank {rank}: exit code {code}; {(said or lines)[-1]}", ended - harmed_at(folder)


for harm in sys.argv[1:] or HARMS:
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        root, first, end = under_errbus(Path(ours), harm)
        print(f"| {harm} | errbus run | {root[:140]} | {first:.1f} s, {end:.1f} s |", flush=True)
        root, end = under_torchrun(Path(theirs), harm)
        print(f"| {harm} | torchrun | {root[:140]} | end {end:.1f} s |", flush=True)
