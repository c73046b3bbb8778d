# SPDX-License-Identifier: MPL-2.0
"""Flower with Errbus beside it (examples/flower_errors.py): the server learns why a client failed."""
import json
import os
import random
import socket
import subprocess
import sys

import pytest
from broker import Broker

pytest.importorskip("flwr", reason="flwr is not installed here")

HERE = os.path.dirname(os.path.abspath(__file__))
WHOLE_S = 180  # a loaded machine imports flwr slowly


def free_address():
    """An address that is free, with a port that the system gives to nobody who asks for any.
    Flower wants to be the only one who has a socket there, so the test holds none."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first_given = int(file.read().split()[0])
    while True:
        address = ("127.0.0.1", random.randrange(first_given // 2, first_given))
        with socket.socket() as tried:
            try:
                tried.bind(address)
                return f"{address[0]}:{address[1]}"
            except OSError:
                pass  # somebody has it


@pytest.fixture(scope="module")
def told():
    """What the server told: a list of rows."""
    address = free_address()
    with Broker() as broker:
        environment = dict(os.environ, ERRBUS_SERVER=broker.endpoint, FLWR_TELEMETRY_ENABLED="0",
                           PYTHONPATH=f"{HERE}/../examples")
        programs = [
            subprocess.Popen([sys.executable, f"{HERE}/flower_program.py", name, address],
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True)
            for name in ("server", "silo1", "silo2", "silo3")]
        try:
            said, log = programs[0].communicate(timeout=WHOLE_S)
            assert programs[0].returncode == 0, log
        finally:
            for program in programs:
                program.kill()
                program.communicate()
    return [json.loads(line) for line in said.splitlines()]


def row_of(told, party):
    return next(row for row in told if row.get("party") == party)


def test_the_server_learns_how_a_killed_client_was_lost(told):
    row = row_of(told, "silo2")
    assert (row["round"], row["kind"], row["type"]) == (3, "party_lost", "errbus.connection_closed")


def test_the_server_learns_the_line_that_raised(told):
    row = row_of(told, "silo3")
    assert (row["round"], row["kind"], row["message"]) == (5, "application", "no batch left")
    assert 'raise ValueError("no batch left")  # the line of silo3' in row["trace"]


def test_flower_alone_says_neither(told):
    for number in 3, 5:
        said = next(row["flower"] for row in told if row["round"] == number)
        assert len(said) == 1 and "silo" not in said[0] and "no batch left" not in said[0]


def test_the_training_goes_on_without_them(told):
    model = told[-1]["model"]
    assert abs(model[0] - 3) < 0.1 and abs(model[1] + 2) < 0.1
