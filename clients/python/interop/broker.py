# SPDX-License-Identifier: MPL-2.0
"""A broker of a test, on ports of its own; killed and started again where a test wants that."""
import os
import re
import signal
import subprocess


class Broker:
    def __init__(self, journal=None):
        self._words = [os.environ["ERRBUSD"], "--journal", str(journal) if journal else "none"]
        self._ports = ("*", "*")
        self.start()

    def start(self):
        """Starts it; at the same ports as before."""
        words = []
        for channel, port in zip(("--control", "--data"), self._ports):
            words += [channel, f"tcp://127.0.0.1:{port}"]
        self.process = subprocess.Popen(
            self._words + words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self.process.stdout.readline()
        found = dict(word.split("=", 1) for word in line.split() if "=" in word)
        self._ports = tuple(re.search(r":(\d+)$", found[c])[1] for c in ("control", "data"))
        self.endpoint = found["control"]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()
