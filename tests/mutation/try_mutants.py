# SPDX-License-Identifier: MPL-2.0
"""Draws mutants, compiles them beside the build and runs what is near: see random.sh."""
import argparse
import collections
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import mutants

DRAWS_PER_MUTANT = 20  # that may come to nothing before it gives up
COMPILE_SECONDS = 60
SEEDS = int(os.environ.get("MUTATION_SEEDS", "300"))

SLOW_SIMULATIONS = ("sim_members", "sim_group", "sim_attach")  # a seed takes ten times as long

# Program, and the seconds it may take.
CORPUS = [("corpus_corpus", 60), ("corpus_facts", 60), ("corpus_protocol", 60)]
SIMULATION = [("sim_scenario", 60), ("sim_sim", 120), ("sim_verdict", 60), ("sim_memory", 60),
              ("sim_attach", 60), ("sim_members", 60), ("sim_group", 60)]
# What stands outside of the simulation, and real programs that use it.
SYSTEM = {
    "broker/io": ["errbusd", "flow", "restart", "loss", "hostile", "journal_tool", "journal_disk"],
    "broker/journal": ["restart", "journal_tool", "journal_default", "journal_disk"],
    "libbus/api": ["api", "admin", "cli", "inplace", "flow", "once", "verdict", "job", "refusal", "worker",
                   "pieces", "request", "attachment"],
    "libbus/io": ["flow", "outage", "loss"],
    "libbus/session": ["flow", "inplace", "durable", "outage", "pieces"],
}
SYSTEM_SECONDS = 120
SIMULATED = ("broker/core/", "broker/io/core_port", "broker/journal/", "libbus/session/", "libbus/wire/",
             "libbus/base/")
PROGRAMS = ("errbusd", "errbusd_failpoints", "errbus", "fedavg", "test_party", "test_worker",
            "test_torturer")

Mutant = collections.namedtuple("Mutant", "path line function kind old new source")


class CannotRun(Exception):
    """Nothing can be said of a mutant: no test of it could be made or run."""


class Build:
    """The build folder, and the commands by which Ninja makes what is in it."""

    def __init__(self, root, folder, work):
        self.root, self.folder, self.work = root, folder, work
        self.commands = {}
        self.originals = {}  # object code of what is whole, by file
        self.standing = {}  # whether a test passes on the bus as it is, by test
        self.told = set()  # tests that do not, and that were told of

    def command(self, target):
        if target not in self.commands:
            said = subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target],
                                  capture_output=True, text=True, check=False)
            self.commands[target] = said.stdout.strip().split("\n")[-1] if said.returncode == 0 else ""
        return self.commands[target]

    def has(self, path):
        return self.command(self.object_of(path)) != ""

    @staticmethod
    def object_of(path):
        folder, rest = path.split("/", 1)
        return f"{folder}/CMakeFiles/{folder}_{rest.split('/')[0]}.dir/{rest}.o"

    def compile(self, path, source, out, extra=""):
        """True: it compiles.  The text always lies in one place, for objects hold its name."""
        with open(f"{self.work}/mutant.c", "w", encoding="utf-8") as file:
            file.write(source)
        command = re.sub(r" -M[TF] \S+| -MD\b", "", self.command(self.object_of(path)))
        command = re.sub(r" -o \S+ -c .*", f" -w {extra} -o {out} -c {self.work}/mutant.c", command)
        return self.run(command, COMPILE_SECONDS)[0] == 0

    def optimised(self, path, source):
        """The object code of a source as compilers make it that look closely, or None."""
        out = f"{self.work}/close.o"
        if not self.compile(path, source, out, "-O2 -g0"):
            return None
        with open(out, "rb") as file:
            return file.read()

    def link(self, target, path, out):
        """A program with the mutant in the place of what is whole."""
        command = self.command(target)
        place = self.object_of(path)
        mutant = f"{self.work}/mutant.o"
        if place in command.split():
            command = command.replace(f" {place} ", f" {mutant} ")
        else:
            command = command.replace(f" -o {target} ", f" {mutant} -o {target} ")
        command = re.sub(rf" -o {re.escape(target)} .*?(?= && |$)",
                         lambda found: found.group(0).replace(f" -o {target} ", f" -o {out} "), command)
        return command != "" and self.run(command, COMPILE_SECONDS)[0] == 0

    def run(self, command, seconds, environment=None):
        """Status and output; status None: it did not end in time.  Its children end with it."""
        with subprocess.Popen(["sh", "-c", command], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, start_new_session=True,
                              env={**os.environ, **(environment or {}), "CCACHE_DISABLE": "1"}) as child:
            try:
                said = child.communicate(timeout=seconds)[0]
                return child.returncode, said.decode("utf-8", "replace")
            except subprocess.TimeoutExpired:
                return None, ""
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # all of it has ended


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def near_units(root, path):
    """Unit tests: those that include its header, the rest of its module's, nearest first."""
    header = re.sub(r"\.c$", ".h", path)
    folder = os.path.dirname(path)
    module = "/".join(path.split("/")[:2])
    stem = os.path.basename(path)[:-2]
    ranks = {}
    for test in sorted(glob.glob(f"{root}/tests/unit/*_test.c")):
        name = os.path.basename(test)[:-len("_test.c")]
        text = read(test)
        if name == stem or name == "core_" + stem:
            ranks[name] = 0
        elif f'"{header}"' in text:
            ranks[name] = 1
        elif f'"{folder}/' in text:
            ranks[name] = 2
        elif f'"{module}/' in text or (module == "broker/core" and name.startswith("core")):
            ranks[name] = 3
        elif module in ("libbus/base", "libbus/wire"):
            ranks[name] = 4
    return [f"unit_{name}" for name in sorted(ranks, key=lambda name: (ranks[name], name))]


def programs_for(root, path):
    """(target, seconds) of the tests, nearest first."""
    tests = [(name, 60) for name in near_units(root, path)]
    tests += CORPUS
    if path.startswith(SIMULATED):
        tests += SIMULATION
    module = "/".join(path.split("/")[:2])
    tests += [(f"system_{name}", SYSTEM_SECONDS) for name in SYSTEM.get(module, [])]
    return [(f"tests/{name}", seconds) for name, seconds in tests]


def environment_for(build, path, test):
    """Where the programs lie; a broken broker takes the place of the whole one."""
    is_slow = test.endswith(SLOW_SIMULATIONS)
    found = {"ERRBUS_SIM_SEEDS": str(SEEDS // 10 if is_slow else SEEDS), "ERRBUS_SIM_SHRINK": "0", "STATE_DIRECTORY": "/dev/null"}
    if not test.startswith("tests/system_"):
        return found
    for name in PROGRAMS:
        for place in glob.glob(f"{build.folder}/*/{name}"):
            found[name.upper()] = place
    if path.startswith("broker/"):
        found["ERRBUSD"] = f"{build.work}/errbusd"
        found["ERRBUSD_FAILPOINTS"] = f"{build.work}/errbusd_failpoints"
    else:
        found["LD_LIBRARY_PATH"] = f"{build.work}/lib"
    return found


def link_programs(build, path):
    """What the system tests run is broken, too: both brokers, or the library of all others."""
    if path.startswith("broker/"):
        return build.link("broker/errbusd", path, f"{build.work}/errbusd") and \
            build.link("tests/errbusd_failpoints", path, f"{build.work}/errbusd_failpoints")
    os.makedirs(f"{build.work}/lib", exist_ok=True)
    names = [os.path.basename(place) for place in glob.glob(f"{build.folder}/libbus/libbus.so.*")]
    real = max(names, key=len, default="")
    if real == "" or not build.link(f"libbus/{real}", path, f"{build.work}/lib/{real}"):
        return False
    for name in names:
        if name != real:
            shutil.copy(f"{build.work}/lib/{real}", f"{build.work}/lib/{name}")
    return True


def link_whole(build, path):
    """The object code that is whole takes the mutant's place."""
    shutil.move(f"{build.work}/mutant.o", f"{build.work}/kept.o")
    shutil.copy(f"{build.folder}/{build.object_of(path)}", f"{build.work}/mutant.o")


def stands(build, path, test, seconds):
    """Whether the test passes on the bus as it is, in the same place, and in the same time.  If it does
    not, its failure says nothing about a mutant."""
    if test not in build.standing:
        link_whole(build, path)
        try:
            is_linked = not test.startswith("tests/system_") or link_programs(build, path)
            build.standing[test] = is_linked and build.link(test, path, f"{build.work}/whole") and \
                build.run(f"exec {build.work}/whole", seconds, environment_for(build, path, test))[0] == 0
        finally:
            shutil.move(f"{build.work}/kept.o", f"{build.work}/mutant.o")
    return build.standing[test]


def notice(build, root, path):
    """What notices the mutant that was compiled, or None."""
    is_linked, ran = False, 0
    for test, seconds in programs_for(root, path):
        if not os.path.exists(f"{build.folder}/{test}"):
            continue
        if test.startswith("tests/system_") and not is_linked:
            is_linked = link_programs(build, path)
            if not is_linked:
                raise CannotRun(f"{path}: the programs with the mutant cannot be linked")
        if not build.link(test, path, f"{build.work}/mutant"):
            continue
        status, said = build.run(f"exec {build.work}/mutant", seconds, environment_for(build, path, test))
        if status != 0 and not stands(build, path, test, seconds):
            if test not in build.told:
                build.told.add(test)
                print(f"not used: {test[6:]} fails on the bus as it is", flush=True)
            if test.startswith("tests/system_"):
                is_linked = False  # they are whole now
            continue
        ran += 1
        if status is None:
            return f"{test[6:]}: it comes to no end"
        if status != 0:
            words = re.search(r"^\[FAIL\] (\S+?::\w+)|test `(\S+?::\w+)` crashed|(seed \d+: .*)", said, re.M)
            return f"{test[6:]}: {next(filter(None, words.groups())) if words else status}"
    if ran == 0:
        raise CannotRun(f"{path}: no test that could notice it is built in {build.folder}")
    return None


def draw(dice, root, paths):
    """A mutant, or None: this function has nothing to change in the way that was drawn."""
    path = dice.choices(list(paths), weights=list(paths.values()))[0]
    source = read(f"{root}/{path}")
    text = mutants.blank(source)
    found = mutants.functions(text)
    if not found:
        return None
    function = dice.choice(found)
    kind = dice.choice(mutants.KINDS)
    may_be = list(mutants.changes(source, text, function, kind))
    if not may_be:
        return None
    change = dice.choice(may_be)
    return Mutant(path, source.count("\n", 0, change.begin) + 1, function.name, change.kind,
                  source[change.begin:change.end], change.text,
                  source[:change.begin] + change.text + source[change.end:])


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def shown(mutant, root):
    """The lines as they are and as they were made, for people."""
    before = read(f"{root}/{mutant.path}").split("\n")
    after = mutant.source.split("\n")
    changed = [i for i, line in enumerate(before) if line != after[i]]
    old = one_line(" ".join(before[changed[0]:changed[-1] + 1]))
    new = one_line(" ".join(after[changed[0]:changed[-1] + 1]))
    return old, new


def options_of(arguments):
    parser = argparse.ArgumentParser(prog="random.sh")
    parser.add_argument("root")
    parser.add_argument("seed")
    parser.add_argument("count", type=int)
    parser.add_argument("--build")
    parser.add_argument("--under", default="")
    parser.add_argument("--results")
    return parser.parse_args(arguments)


def sources(root, build, under):
    """Files that the build compiles, with the number of their lines."""
    found = {}
    for top in ("broker", "libbus"):
        for place in sorted(glob.glob(f"{root}/{top}/**/*.c", recursive=True)):
            path = os.path.relpath(place, root)
            if path.startswith(under) and build.has(path):
                found[path] = read(place).count("\n")
    return found


def tell(options, mutant, root, by):
    old, new = shown(mutant, root)
    place = f"{mutant.path}:{mutant.line}"
    print(f"{'caught' if by else 'SURVIVED'} {place} {mutant.function}(): {mutant.kind}"
          + (f", by {by}" if by else f"\n    - {old}\n    + {new}"), flush=True)
    if options.results:
        with open(options.results, "a", encoding="utf-8") as file:
            file.write(json.dumps({"file": mutant.path, "line": mutant.line, "old": old, "new": new,
                                   "function": mutant.function, "kind": mutant.kind,
                                   "noticed_by": by}) + "\n")
    return f"{place} {mutant.function}()\n    - {old}\n    + {new}"


def main(arguments):
    options = options_of(arguments)
    root = options.root
    work = tempfile.mkdtemp(prefix="errbus-mutants.")
    build = Build(root, os.path.abspath(options.build or f"{root}/build/dev"), work)
    dice = random.Random(options.seed)
    tally = collections.Counter()
    survivors, seen = [], set()
    try:
        paths = sources(root, build, options.under)
        for _ in range(options.count * DRAWS_PER_MUTANT if paths else 0):
            if tally["counted"] == options.count:
                break
            mutant = draw(dice, root, paths)
            if mutant is None or (mutant.path, mutant.source) in seen:
                continue
            seen.add((mutant.path, mutant.source))
            if mutant.path not in build.originals:
                build.originals[mutant.path] = build.optimised(mutant.path, read(f"{root}/{mutant.path}"))
            code = build.optimised(mutant.path, mutant.source)
            if code is None or not build.compile(mutant.path, mutant.source, f"{work}/mutant.o"):
                tally["do not compile"] += 1
                continue
            if code == build.originals[mutant.path]:
                tally["give the same code"] += 1
                continue
            tally["counted"] += 1
            by = notice(build, root, mutant.path)
            line = tell(options, mutant, root, by)
            tally["noticed" if by else "survived"] += 1
            if by is None:
                survivors.append(line)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"\n{tally['counted']} mutants under seed {options.seed}: {tally['noticed']} noticed, "
          f"{tally['survived']} survived; not counted: {tally['do not compile']} that do not compile, "
          f"{tally['give the same code']} that give the same code")
    for line in survivors:
        print(line)
    return 1 if survivors or tally["counted"] == 0 else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except CannotRun as why:
        print(f"random.sh: {why}", file=sys.stderr)
        sys.exit(2)
