# SPDX-License-Identifier: MPL-2.0
"""What a receive and a raise cost in Python: Errbus beside its own C, pyzmq and nats-py.

    run.sh BUILD [--runs N] [--quick]          from a build of Errbus; it starts this program

One writer, one reader, each a process.  The writer is a Python program in each case; the reader is
what is measured, between its first outcome and its last one: time and CPU time of all its threads,
for each value.  The systems take turns, run by run, and the table has medians with quartiles.

A raise is, over Errbus, the error of a failed slot with a traceback, raised by recv(); C gets the
error as an object.  pyzmq and nats-py carry no errors: there the exception is pickled with its
traceback as a value, and raised from it.  pyzmq has no broker between the two.
"""
import argparse
import asyncio
import json
import os
import pickle
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

SYSTEMS = ("errbus C", "errbus", "errbus aio", "pyzmq", "nats-py")
CASES = {  # name: bytes of a value (0: an error), count
    "receive 256 B": (256, 100_000),
    "receive 1 MiB": (1 << 20, 400),
    "raise": (0, 10_000),
}
BATCH_BYTES = 1 << 20
LARGE_BYTES = 1 << 16


# ---- what an error is ------------------------------------------------------------------------------


def failure():
    """An exception that was raised, three frames deep."""
    def deep(left):
        if left:
            return deep(left - 1)
        raise ValueError("there is no batch 7")

    try:
        deep(3)
    except ValueError as error:
        return error


def packed_failure():
    error = failure()
    error.add_note("".join(traceback.format_exception(error)))
    return pickle.dumps(error)


# ---- readers: each calls mark() behind its first outcome -------------------------------------------


class Meter:
    def __init__(self):
        self._wall = self._cpu = 0.0

    def mark(self):
        self._wall, self._cpu = time.perf_counter(), self._cpu_s()

    @staticmethod
    def _cpu_s():
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    def tell(self):
        print(time.perf_counter() - self._wall, self._cpu_s() - self._cpu, flush=True)


def take(value, size):
    """A value, or the exception that it is."""
    if size:
        return value[0]
    try:
        raise pickle.loads(value)
    except ValueError as error:
        return error.args[0]


def read_errbus(endpoint, size, count):
    import errbus

    meter = Meter()
    with errbus.open(endpoint, party="reader") as bus, bus.subscribe("writer/w") as sub:
        bus.flush(20)
        print("ready", flush=True)
        for turn in range(count):
            if size:
                next(sub).value[0]
            else:
                try:
                    next(sub)
                except errbus.RemoteError as error:
                    error.message
            if turn == 0:
                meter.mark()
        meter.tell()


async def read_errbus_aio(endpoint, size, count):
    import errbus.aio

    meter = Meter()
    async with errbus.aio.open(endpoint, party="reader") as bus:
        async with bus.subscribe("writer/w") as sub:
            await bus.flush(20)
            print("ready", flush=True)
            for turn in range(count):
                try:
                    message = await sub.__anext__()
                    message.value[0]
                except errbus.RemoteError as error:
                    error.message
                if turn == 0:
                    meter.mark()
            meter.tell()


def read_pyzmq(endpoint, size, count):
    import zmq

    meter = Meter()
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(endpoint)
        print("ready", flush=True)
        for turn in range(count):
            if size >= LARGE_BYTES:
                take(socket.recv(copy=False).buffer, size)
            else:
                take(socket.recv(), size)
            if turn == 0:
                meter.mark()
        meter.tell()


async def read_nats(endpoint, size, count):
    import nats

    meter = Meter()
    client = await nats.connect(endpoint)
    sub = await client.subscribe("w", pending_msgs_limit=-1, pending_bytes_limit=-1)
    await client.flush()
    print("ready", flush=True)
    for turn in range(count):
        take((await sub.next_msg(timeout=60)).data, size)
        if turn == 0:
            meter.mark()
    meter.tell()
    await client.close()


# ---- writers ---------------------------------------------------------------------------------------


def write_errbus(endpoint, size, count):
    import errbus

    with errbus.open(endpoint, party="writer", disclosure="full", send_timeout=60) as bus:
        if not size:
            error = failure()
            for _ in range(count):
                bus.slot("w").fail(error)
        batch = max(1, BATCH_BYTES // size) if size else 1
        for first in range(0, count if size else 0, batch):
            bus.publish_many("w", [bytes(size)] * min(batch, count - first))
        bus.flush(60)
        sys.stdin.read()


def write_pyzmq(endpoint, size, count):
    import zmq

    value = bytes(size) if size else packed_failure()
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(endpoint)
        for _ in range(count):
            socket.send(value, copy=size < LARGE_BYTES)
        sys.stdin.read()


async def write_nats(endpoint, size, count):
    import nats

    value = bytes(size) if size else packed_failure()
    client = await nats.connect(endpoint)
    batch = max(1, BATCH_BYTES // len(value))
    for turn in range(count):
        await client.publish("w", value)
        if turn % batch == batch - 1:
            await client.flush(timeout=60)
    await client.flush(timeout=60)
    sys.stdin.read()
    await client.close()


ROLES = {
    "read": {"errbus": read_errbus, "errbus aio": read_errbus_aio, "pyzmq": read_pyzmq,
             "nats-py": read_nats},
    "write": {"errbus": write_errbus, "errbus aio": write_errbus, "errbus C": write_errbus,
              "pyzmq": write_pyzmq, "nats-py": write_nats},
}


def play(role, system, endpoint, size, count):
    done = ROLES[role][system](endpoint, int(size), int(count))
    if done is not None:
        asyncio.run(done)


# ---- one measurement -------------------------------------------------------------------------------


class Server:
    """What stands between writer and reader, on a port of its own."""

    def __init__(self, system, folder):
        self.process, self.endpoint = None, f"ipc://{folder}/zmq"
        if system.startswith("errbus"):
            self.process = subprocess.Popen(
                [os.environ["ERRBUSD"], "--journal", "none", "--control", "tcp://127.0.0.1:*",
                 "--data", "tcp://127.0.0.1:*"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True)
            words = self.process.stdout.readline().split()
            self.endpoint = next(word for word in words if word.startswith("control="))[8:]
        elif system == "pyzmq":
            self.endpoint = "tcp://127.0.0.1:47161"
        else:
            with open(f"{folder}/nats.conf", "w") as file:
                file.write("max_payload: 8MB\nmax_pending: 1GB\nwrite_deadline: \"60s\"\n")
            self.process = subprocess.Popen(
                ["nats-server", "-c", f"{folder}/nats.conf", "-a", "127.0.0.1", "-p", "-1",
                 "--ports_file_dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ports = f"{folder}/nats-server_{self.process.pid}.ports"
            while not os.path.exists(ports) or not os.path.getsize(ports):
                time.sleep(0.02)
            with open(ports) as file:
                self.endpoint = json.load(file)["nats"][0]

    def close(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate()


def measure(system, size, count):
    """Seconds and CPU seconds of the reader for each outcome."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(system, folder)
        words = [server.endpoint, str(size), str(count)]
        reader_words = [sys.executable, __file__, "read", system, *words]
        if system == "errbus C":
            reader_words = [os.environ["ERRBUS_READER"], server.endpoint, str(count)]
            reader_words += [] if size else ["error"]
        reader = subprocess.Popen(reader_words, stdout=subprocess.PIPE, text=True)
        writer = None
        try:
            if reader.stdout.readline() != "ready\n":
                raise SystemExit(f"costs: the reader of {system} does not begin")
            writer = subprocess.Popen([sys.executable, __file__, "write", system, *words],
                                      stdin=subprocess.PIPE)
            told = reader.stdout.readline().split()
            writer.communicate()
            if len(told) < 2 or reader.wait() or writer.returncode:
                raise SystemExit(f"costs: {system} failed")
            return [float(one) / (count - 1) for one in told[:2]]
        finally:
            for process in filter(None, (reader, writer)):
                process.kill()
                process.wait()
                process.stdout.close() if process.stdout else None
            server.close()


def row(case, system, found):
    cells = []
    for values in zip(*found):
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        cells.append(f"{median * 1e6:.1f} | {low * 1e6:.1f} to {high * 1e6:.1f}")
    return f"| {case} | {system} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="at least 2")
    parser.add_argument("--quick", action="store_true", help="two short runs: does it work?")
    options = parser.parse_args()
    runs, parts = (2, 20) if options.quick else (options.runs, 1)
    systems = [one for one in SYSTEMS if one != "nats-py" or shutil.which("nats-server")]
    if len(systems) < len(SYSTEMS):
        print("skipped: nats-py; there is no nats-server here\n")
    print("| what | reader | us | quartiles | CPU us | quartiles |\n|---|---|---|---|---|---|")
    for case, (size, count) in CASES.items():
        found = {system: [] for system in systems}
        for _ in range(runs):
            for system in systems:
                found[system].append(measure(system, size, max(20, count // parts)))
        for system in systems:
            print(row(case, system, found[system]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] in (["read"], ["write"]):
        play(*sys.argv[1:])
    else:
        main()
