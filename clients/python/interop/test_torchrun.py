# SPDX-License-Identifier: MPL-2.0
"""torchrun --rdzv-backend=errbus: nodes come, fail, hang and are killed, and the others go on."""
import os
import queue
import signal
import subprocess
import threading
import time

import pytest
from broker import Broker

import errbus

pytest.importorskip("torch", reason="torch is not installed here")

HERE = os.path.dirname(os.path.abspath(__file__))
STEP_S = 180  # a loaded machine imports torch slowly


class Node:
    """A torchrun on a host of its own; the lines of its ranks come by a thread."""

    def __init__(self, broker, folder, name, *words, address="127.0.0.1", ranks=1):
        self.name, self.ranks, self.lines = name, ranks, queue.Queue()
        self.log = open(folder / f"{name}.log", "w+")
        self.process = subprocess.Popen(
            ["torchrun", "--rdzv-backend=errbus", f"--rdzv-endpoint={broker.endpoint}",
             "--rdzv-id=train", f"--local-addr={address}", "--nnodes=2:3",
             f"--nproc-per-node={ranks}",
             f"--rdzv-conf=join_window=1,timeout={STEP_S},party={name}", *words,
             f"{HERE}/torchrun_program.py", folder],
            env=dict(os.environ, NODE=name), text=True, stdout=subprocess.PIPE, stderr=self.log)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.split())

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def ranks_of(self, world):
        """Its ranks, once all its workers have begun in a world of that size."""
        found = []
        while len(found) < self.ranks:
            try:
                line = self.lines.get(timeout=STEP_S)
            except queue.Empty:
                raise AssertionError(f"{self.name}: no world of {world}: {self.said()[-6000:]}")
            if line[:1] == ["begin"] and int(line[3]) == world:
                found.append(int(line[1]))
        return sorted(found)

    def children(self):
        pid = self.process.pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                return [int(one) for one in file.read().split()]
        except FileNotFoundError:
            return []

    def kill(self):
        """The whole node at once: its ranks would outlive torchrun."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)  # it starts no other rank meanwhile
            for pid in self.children():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.log.close()


@pytest.fixture
def start(tmp_path):
    nodes = []
    with Broker() as broker:
        def one(name, *words, **options):
            nodes.append(Node(broker, tmp_path, name, *words, **options))
            return nodes[-1]

        one.broker = broker
        yield one
        for node in nodes:
            node.close()


def until_it_waits(broker, name):
    """Until the job has the node as one that waits for a place."""
    with errbus.Admin(broker.endpoint) as admin:
        end = time.monotonic() + STEP_S
        while not any((one.party, one.rank) == (name, None) for one in admin.job("train").members):
            assert time.monotonic() < end, f"{name} does not come"
            time.sleep(0.1)


def all_begin(nodes):
    """The ranks of each node, once all of all nodes have begun."""
    world = sum(node.ranks for node in nodes)
    ranks = [node.ranks_of(world) for node in nodes]
    assert sorted(sum(ranks, [])) == list(range(world))
    return ranks


def test_nodes_come_fail_hang_and_are_killed(start, tmp_path):
    nodes = [start("node0", "--max-restarts=9"), start("node1", "--max-restarts=9")]
    all_begin(nodes)
    nodes.append(start("node2", "--max-restarts=9"))
    ranks = all_begin(nodes)
    for harm in "node1.raise", "node2.hang":
        (tmp_path / harm).touch()
        assert all_begin(nodes) == ranks, "who stays keeps its rank"
    first = nodes.pop(ranks.index([0]))  # the stores of all others were its own
    first.kill()
    all_begin(nodes)
    (tmp_path / "stop").touch()
    for node in nodes:
        assert node.process.wait(STEP_S) == 0, node.said()


def test_nodes_on_two_hosts_with_two_ranks_each_go_on_when_a_rank_is_killed(start, tmp_path):
    nodes = [start(f"node{number}", "--max-restarts=9", address=f"127.0.0.{number + 1}", ranks=2)
             for number in range(2)]
    before = all_begin(nodes)
    assert sorted(before) == [[0, 1], [2, 3]], "the ranks of a node stand together"
    for node in nodes:  # the one with the stores, and the other one
        workers = node.children()
        assert len(workers) == 2
        os.kill(workers[1], signal.SIGKILL)
        assert all_begin(nodes) == before, "each node keeps its ranks"
        assert not set(workers) & set(node.children()), "the other rank of the node is new, too"
    (tmp_path / "stop").touch()
    for node in nodes:
        assert node.process.wait(STEP_S) == 0, node.said()


def test_a_node_that_waits_takes_the_place_of_a_killed_one(start, tmp_path):
    nodes = [start(f"node{number}", "--max-restarts=9") for number in range(3)]
    all_begin(nodes)
    nodes.append(start("node3", "--max-restarts=9"))
    until_it_waits(start.broker, "node3")
    nodes.pop(2).kill()
    all_begin(nodes)
    last = start("node4", "--max-restarts=9")
    until_it_waits(start.broker, "node4")
    (tmp_path / "stop").touch()
    for node in nodes:
        assert node.process.wait(STEP_S) == 0, node.said()
    assert last.process.wait(STEP_S) == 1 and "the job completed" in last.said()


def test_a_node_that_gives_up_ends_the_others_who_learn_why(start, tmp_path):
    for _ in range(2):  # a job that ended may be run again
        nodes = [start("node0", "--max-restarts=9"), start("node1", "--max-restarts=0")]
        all_begin(nodes)
        (tmp_path / "node1.raise").touch()
        for node in reversed(nodes):
            assert node.process.wait(STEP_S) == 1
            assert "ValueError: no batch left at node1" in node.said()
        assert "RendezvousClosedError" in nodes[0].said()
