# SPDX-License-Identifier: MPL-2.0
"""Three parties in one process.  The exception of alice fails bob, and ends the program at carol.

test_errors.py compares what Python prints with traceback.golden.
"""
import errbus


def load(rows):
    return rows["batch 7"]


def train(alice):
    with alice.slot("grads") as slot:
        try:
            slot.commit(load({}))
        except KeyError as error:
            raise ValueError("there is no batch 7") from error


def average(bob):
    with bob.slot("model") as slot:
        slot.commit(bob.get("alice/grads", 0, 20))


def open_bus(party):
    return errbus.open(party=party, disclosure="full", timeout=20)


def main():
    alice, bob, carol = open_bus("alice"), open_bus("bob"), open_bus("carol")
    for work, bus in (train, alice), (average, bob):
        try:
            work(bus)
        except (ValueError, errbus.Application):
            pass  # the broker tells the other parties
    carol.get("bob/model", 0, 20)


main()
