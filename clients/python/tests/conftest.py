# SPDX-License-Identifier: MPL-2.0
"""A broker for each test that asks for one, on ports of its own; programs as processes."""
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import errbus


def until(is_so, within=20):
    """Waits until is_so() is true, for things that wake no thread when they happen."""
    end = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < end, "it did not become so"
        time.sleep(0.001)


def hear_interrupts():
    """A shell starts what runs in the background with SIGINT ignored, and so does what that starts:
    Python would make no KeyboardInterrupt of it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SlowLink:
    """A relay to a port of this machine that takes so many bytes a second, and gives back as many as
    come.  In both directions each piece is so many seconds on its way."""

    PIECE = 65536

    def __init__(self, target, bytes_per_s=None, delay_s=0):
        host, port = target.split("//")[-1].rsplit(":", 1)
        self._target, self._rate, self._delay_s = (host, int(port)), bytes_per_s, delay_s
        self._door = socket.socket()
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.PIECE)  # a short queue
        self._door.bind(("127.0.0.1", 0))
        self._door.listen()
        self._ends = []
        self.address = f"127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near = self._door.accept()[0]
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._ends += [near, far]
            for source, sink, rate in ((near, far, self._rate), (far, near, None)):
                threading.Thread(target=self._carry, args=(source, sink, rate), daemon=True).start()

    def _carry(self, source, sink, rate):
        try:
            while True:
                piece = source.recv(self.PIECE)
                if not piece:
                    break
                time.sleep(self._delay_s)
                sink.sendall(piece)
                if rate is not None:
                    time.sleep(len(piece) / rate)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_raised):
        for end in [self._door, *self._ends]:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


class Broker:
    def __init__(self, journal="none", *options):
        self._journal, self._options = str(journal), options
        self._endpoints = {"control": "tcp://127.0.0.1:*", "data": "tcp://127.0.0.1:*"}
        self.start()
        self.endpoint, self.data = self._endpoints["control"], self._endpoints["data"]
        self.buses = []

    def start(self):
        """Starts it; again at the same ports."""
        words = [word for name, where in self._endpoints.items() for word in (f"--{name}", where)]
        self.process = subprocess.Popen(
            [os.environ["ERRBUSD"], "--journal", self._journal, *words, *self._options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("errbusd ready"), line
        told = dict(word.split("=", 1) for word in line.split()[2:])
        self._endpoints = {name: told[name] for name in self._endpoints}

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def open(self, party, **options):
        options.setdefault("timeout", 20)
        bus = errbus.open(self.endpoint, party=party, **options)
        self.buses.append(bus)
        return bus

    def program(self, text, party="child", **options):
        """Starts a Python program with errbus imported, as this party."""
        environment = dict(os.environ, ERRBUS_SERVER=self.endpoint, ERRBUS_PARTY=party)
        return subprocess.Popen(
            [sys.executable, "-c", "import errbus, os, sys, time\n" + textwrap.dedent(text)],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=hear_interrupts, **options,
        )

    def close(self):
        for bus in self.buses:
            try:
                bus.close(1)
            except errbus.Error:
                pass
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def broker():
    started = Broker()
    yield started
    started.close()


def make_key(path):
    """Makes a key in that file, and returns its public half."""
    made = subprocess.run([os.environ["ERRBUS"], "key", "new", "--file", str(path)], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30)
    return made.stdout.decode().strip()


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A broker with an access file.  Only alice may ask for status; the stranger may do nothing."""
    folder = tmp_path_factory.mktemp("locked")
    names = {name: make_key(folder / name) for name in ("alice", "bob", "stranger")}
    (folder / "access").write_text(
        f"key alice {names['alice']}\nkey bob {names['bob']}\n"
        "allow alice party status tap in *\nallow bob party in *\n")
    started = Broker(folder / "journal", "--access", str(folder / "access"))
    started.folder, started.public = folder, names
    yield started
    started.close()
