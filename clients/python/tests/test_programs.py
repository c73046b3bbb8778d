# SPDX-License-Identifier: MPL-2.0
"""python3 -m errbus, @errbus.record, and the example."""
import json
import os
import subprocess
import sys

import errbus


def run(*words, **environment):
    return subprocess.run([sys.executable, *words], env=dict(os.environ, **environment),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


def test_the_doctor_finds_a_broker_or_says_what_is_wrong(broker):
    well = run("-m", "errbus", broker.endpoint)
    assert well.returncode == 0, well.stderr
    assert f"errbusd {errbus.__version__}" in well.stdout and well.stdout.endswith("well\n")
    wrong = run("-m", "errbus", ERRBUS_SERVER="tcp://127.0.0.1:9")
    assert wrong.returncode == 6 and "start errbusd" in wrong.stderr


def test_record_writes_both_files(tmp_path):
    ours, torchs = tmp_path / "ours.json", tmp_path / "torch.json"
    ended = run("-c", "import errbus\n@errbus.record\ndef main(): raise ValueError('no batch')\nmain()",
                ERRBUS_ERROR_FILE=str(ours), TORCHELASTIC_ERROR_FILE=str(torchs))
    assert ended.returncode == 1 and "ValueError: no batch" in ended.stderr
    for file in ours, torchs:
        message = json.loads(file.read_text())["message"]
        assert message["message"] == "ValueError: no batch"
        extra = message["extraInfo"]
        assert "in main" in extra["py_callstack"] and extra["type"] == "python.ValueError"
        assert int(extra["timestamp_ns"]) // 10**9 == int(extra["timestamp"])
    assert run("-c", "import errbus, sys\nerrbus.record(lambda: sys.exit(0))()",
               ERRBUS_ERROR_FILE=str(tmp_path / "none")).returncode == 0
    assert not (tmp_path / "none").exists()


def test_errbus_run_reads_what_record_writes(broker):
    program = "import errbus\n@errbus.record\ndef main(): raise ValueError('no batch')\nmain()"
    bob = broker.open("bob")
    ran = subprocess.Popen([os.environ["ERRBUS"], "run", "-p", "alice", "--", sys.executable, "-c",
                            program], env=dict(os.environ, ERRBUS_SERVER=broker.endpoint),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        bob.get("alice/w", 0, 20)
        raise AssertionError("there is no value")
    except errbus.RemoteError as error:
        assert "no batch" in error.root.message
    ran.wait(20)


def test_federated_averaging_goes_on_without_a_killed_silo(broker):
    source = os.environ["ERRBUS_SOURCE"]
    ended = run(f"{source}/clients/python/examples/fedavg.py", "--kill", "2",
                ERRBUS_SERVER=broker.endpoint)
    assert ended.returncode == 0, ended.stderr
    rounds = [line for line in ended.stdout.splitlines() if line.startswith("round ")]
    assert len(rounds) == 8
    assert "silo3 is missing: errbus.connection_closed" in ended.stdout
    accuracy = float(rounds[-1].split()[-1])
    assert accuracy > 0.9, ended.stdout
