# SPDX-License-Identifier: MPL-2.0
"""The stage of the page's tests: a broker with a journal, errbus web, and a browser."""
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

import errbus

SOON = 120  # seconds: a bound against hanging, on a machine with other work


def pytest_addoption(parser):
    parser.addoption("--keep", metavar="DIR", default=os.environ.get("ERRBUS_KEEP"),
                     help="write screenshots to this folder (the environment's ERRBUS_KEEP)")


def until(look, within=SOON):
    """Waits until look() gives something true, and gives that."""
    end = time.monotonic() + within
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"it did not become so: {look()!r}"
        time.sleep(0.02)


class Program:
    """A program, and the first line that it prints."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.line = self.process.stdout.readline().strip()

    def stop(self):
        self.process.terminate()
        self.process.wait(SOON)
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait(SOON)
        self.process.stdout.close()


class Stage:
    def __init__(self, journal):
        self.journal = journal
        self.control, self.data = "tcp://127.0.0.1:*", "tcp://127.0.0.1:*"
        self.buses = []
        self.start_broker()
        self.web = self.start_web()
        self.origin = self.web.line.split()[-1]
        self.port = int(self.origin.rsplit(":", 1)[1])

    def start_broker(self):
        """Starts it; again at the same ports."""
        self.broker = Program(
            os.environ["ERRBUSD"], "--journal", self.journal,
            "--control", self.control, "--data", self.data,
        )
        told = dict(word.split("=", 1) for word in self.broker.line.split()[2:])
        self.control, self.data = told["control"], told["data"]

    def start_web(self, *words):
        web = Program(
            os.environ["ERRBUS_WEB"], "--server", self.control, "--listen", "127.0.0.1:0", *words
        )
        assert web.line.startswith("errbus web: ready: "), web.line
        return web

    def errbus(self, *words):
        """What this subcommand prints."""
        return subprocess.run(
            [os.environ["ERRBUS"], words[0], "--server", self.control, *words[1:]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=SOON,
        ).stdout

    def open(self, party, job="default", **options):
        bus = errbus.open(self.control, party=party, job=job, timeout=SOON, **options)
        self.buses.append(bus)
        return bus

    def close(self):
        for bus in self.buses:
            try:
                bus.close(1)
            except errbus.Error:
                pass
        self.web.stop()
        self.broker.stop()


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    made = Stage(str(tmp_path_factory.mktemp("stage") / "journal"))
    yield made
    made.close()


@pytest.fixture
def forgetful():
    """A stage of its own, without a journal."""
    made = Stage("none")
    yield made
    made.close()


# Whom the browser asks for itself, whatever it shows: the time, news of itself, its place of search.
BROWSERS_OWN = re.compile(r"^((GET|POST|HEAD) http://|CONNECT )(?!fonts\.|ajax\.)([a-z0-9-]+\.)*"
                          r"(google|googleapis|gstatic|duckduckgo)\.com[:/]")


class Elsewhere:
    """A proxy that no page must need: what it hears that the browser does not ask for itself.  It
    answers nobody."""

    def __init__(self):
        self.heard = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            try:
                guest, _ = self.socket.accept()
            except OSError:
                return
            with guest:
                guest.settimeout(1)
                try:
                    line = guest.recv(4096).split(b"\r\n")[0].decode("latin-1")
                except OSError:
                    continue  # it said nothing
            if line != "" and not BROWSERS_OWN.match(line):
                self.heard.append(line)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.fixture(scope="session")
def elsewhere():
    made = Elsewhere()
    yield made
    made.close()


def pytest_sessionfinish(session, exitstatus):
    """A run of which nothing was left is skipped, and says so to ctest."""
    counts = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus == 0 and counts.get("skipped") and not counts.get("passed"):
        session.exitstatus = 77


@pytest.fixture(scope="session")
def browser(tmp_path_factory, elsewhere):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    profile = tmp_path_factory.mktemp("profile")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    # --no-sandbox: a test of root.  The rest keeps the browser from asking others for anything.
    for word in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-default-apps", "--no-first-run", "--enable-precise-memory-info",
        "--window-size=1200,900", f"--user-data-dir={profile}",
        f"--proxy-server=127.0.0.1:{elsewhere.port}",  # but for this machine
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.set_script_timeout(SOON)
    yield driver
    driver.quit()
