# SPDX-License-Identifier: MPL-2.0
"""@errbus.record, the example, and the lines of the documents."""
import json
import os
import re
import subprocess
import sys

import numpy as np

import errbus


def run(*words, **environment):
    return subprocess.run([sys.executable, *words], env=dict(os.environ, **environment),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)


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


def test_record_writes_an_error_file_whole_or_not_at_all(tmp_path):
    program = ("import errbus, resource\n@errbus.record\ndef main():\n"
               "    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))\n"
               "    raise ValueError('no batch')\nmain()")
    for limit, left in ("10", []), ("100000", ["error"]):
        ended = run("-c", program.replace("MOST", limit),
                    ERRBUS_ERROR_FILE=str(tmp_path / "error"))
        assert ended.returncode == 1 and "ValueError: no batch" in ended.stderr
        assert os.listdir(tmp_path) == left


def test_the_first_error_stays_in_the_error_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError("no links here")

    for name in "linked", "renamed":
        for reason in "first", "second":
            errbus.write_error_file(ValueError(reason), str(tmp_path / name))
        message = json.loads((tmp_path / name).read_text())["message"]["message"]
        assert message == "ValueError: first"
        monkeypatch.setattr(os, "link", refuse)
    assert sorted(os.listdir(tmp_path)) == ["linked", "renamed"]


def test_errbus_run_reads_what_record_writes(broker, tmp_path):
    program = "import errbus\n@errbus.record\ndef main(): raise ValueError('no batch')\nmain()"
    bob = broker.open("bob")
    ran = subprocess.Popen([os.environ["ERRBUS"], "run", "-p", "alice", "--log-dir", tmp_path,
                            "--", sys.executable, "-c", program],
                           env=dict(os.environ, ERRBUS_SERVER=broker.endpoint),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        bob.get("alice/w", 0, 20)
        raise AssertionError("there is no value")
    except errbus.RemoteError as error:
        assert "no batch" in error.root.message
    ran.wait(20)


def test_a_program_that_hangs_says_where_when_errbus_run_stops_it(broker, tmp_path):
    program = tmp_path / "hangs.py"
    program.write_text("import errbus, time\n"
                       "def wait_for_ever():\n    time.sleep(3600)  # the line\n"
                       "@errbus.record\ndef main():\n"
                       "    with errbus.open() as bus:\n"
                       "        bus.progress(0.2, 'epoch 3')\n        wait_for_ever()\n"
                       "main()\n")
    ran = subprocess.run(
        [os.environ["ERRBUS"], "run", "-p", "alice", "--log-dir", tmp_path / "log", "--",
         sys.executable, program], env=dict(os.environ, ERRBUS_SERVER=broker.endpoint),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ran.returncode == 1 and "it last was at: epoch 3" in ran.stderr, ran.stderr
    where = f'File "{program}", line 3 in wait_for_ever'
    assert where in ran.stderr and f'File "{program}", line 8 in main' in ran.stderr
    logs = [path for path in (tmp_path / "log").rglob("*") if path.is_file()]
    assert any(where in path.read_text() for path in logs), logs


def test_record_leaves_the_program_s_own_handler_alone(tmp_path):
    ended = run("-c", "import errbus, os, signal, sys\n"
                "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
                "@errbus.record\ndef main(): os.kill(os.getpid(), signal.SIGTERM)\nmain()",
                ERRBUS_ERROR_FILE=str(tmp_path / "error"))
    assert ended.returncode == 7 and ended.stderr == ""
    ended = run("-c", "import errbus, os, signal\nerrbus.record(lambda: None)()\n"
                "os.kill(os.getpid(), signal.SIGTERM)", ERRBUS_ERROR_FILE=str(tmp_path / "none"))
    assert ended.returncode == -15 and ended.stderr == ""


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
    with open(f"{source}/README.md") as file:
        shown = re.search(r"^`--kill 2`.*?^```text\n(.*?)^```", file.read(), re.M | re.S)[1]
    assert len(shown.splitlines()) == 2 and shown in ended.stdout, ended.stdout


def block_of(file):
    """The first Python block of a document."""
    with open(f"{os.environ['ERRBUS_SOURCE']}/{file}") as text:
        return re.search(r"^```python\n(.*?)^```", text.read(), re.M | re.S)[1]


def start_block(file, broker):
    return subprocess.Popen(
        [sys.executable, "-c", block_of(file)], text=True,
        env=dict(os.environ, ERRBUS_SERVER=broker.endpoint, ERRBUS_JOB="default"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_the_lines_of_the_readme_pass_a_value_on(broker):
    alice, carol = broker.open("alice"), broker.open("carol")
    alice.publish_many("grads", [b"0", b"1", b"gradients"])
    bob = start_block("README.md", broker)
    assert bytes(carol.get("bob/model", 0, 20)) == b"gradients"
    assert bob.communicate(timeout=20) == ("", "") and bob.returncode == 0


def test_the_lines_of_the_readme_tell_who_was_killed(broker):
    carol = broker.open("carol")
    alice = broker.program("""
        bus = errbus.open(reconnect_grace=0.1)
        slot = bus.slot("grads", seq=2)
        bus.flush()
        os.kill(os.getpid(), 9)
    """, "alice")
    alice.communicate(timeout=20)
    bob = start_block("README.md", broker)
    try:
        carol.get("bob/model", 0, 20)
        raise AssertionError("there is no model")
    except errbus.RemoteError as error:
        assert (error.party, error.root.party, error.root.kind) == ("bob", "alice", "party_lost")
    _, said = bob.communicate(timeout=20)
    assert bob.returncode == 1 and "errbus.PartyLost: " in said.splitlines()[-1]


def test_the_lines_of_the_package_s_readme_run(broker):
    alice, carol = (broker.open(name, job="train") for name in ("alice", "carol"))
    alice.slot("grads", seq=7).commit(np.arange(4, dtype="f4"))
    bob = start_block("clients/python/README.md", broker)
    model = np.frombuffer(carol.get("bob/model", 0, 20), "f4")
    assert np.allclose(model, np.arange(4) * 0.1)
    assert bob.communicate(timeout=20)[1] == "" and bob.returncode == 0
