# SPDX-License-Identifier: MPL-2.0
"""Flower with Errbus beside it: why the result of a client is missing.

Flower carries the models.  When a client is killed, its server learns that a connection closed;
when a client raises, the same.  Here each fit() of a client is also a promise on a bus.  So the
server gets the exception of the client with its traceback, or how the client was lost.

A client joins a bus, and its fit() becomes a promise:

    bus = errbus.open(party="silo1", disclosure="full")
    fl.client.start_client(server_address=..., client=promised(Silo(), bus).to_client())

A server puts Watched before the class of its strategy:

    class Strategy(Watched, fl.server.strategy.FedAvg):
        pass
    strategy = Strategy(bus, ["silo1", "silo2", "silo3"], on_errors, min_fit_clients=2)

on_errors(server_round, errors) is called when results of a round are missing; errors has an
errbus.RemoteError for each party that failed in it.
"""
from typing import Any, Callable, Dict, Iterable, Set

import errbus

_TOPIC = "fit"
_ROUND = "server_round"  # in the config of each fit()
Errors = Dict[str, errbus.RemoteError]  # by party
_WAIT_S = 5.0  # for the errors of a round: longer than reconnect_grace of a client


def promised(client: Any, bus: errbus.Bus) -> Any:
    """The same client: fit() promises slot N of "PARTY/fit" in round N.  An exception fails the
    slot and goes on, and so does the end of the process.  config has the round: see Watched."""
    fit = client.fit

    def promised_fit(parameters: Any, config: Dict[str, Any]) -> Any:
        with bus.slot(_TOPIC, seq=int(config[_ROUND])) as slot:
            result = fit(parameters, config)
            slot.commit(b"")
        return result

    client.fit = promised_fit
    return client


class Watched:
    """What a strategy of Flower needs to tell why results are missing."""

    def __init__(self, bus: errbus.Bus, parties: Iterable[str],
                 on_errors: Callable[[int, Errors], None], **options: Any) -> None:
        super().__init__(**options)
        self._bus, self._parties, self._on_errors = bus, list(parties), on_errors
        self._failed: Set[str] = set()

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> Any:
        asked = super().configure_fit(  # type: ignore[misc]  # of the class behind this one
            server_round, parameters, client_manager
        )
        for _, instructions in asked:
            instructions.config[_ROUND] = server_round
        return asked

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        if failures:
            errors = self._errors_of(server_round)
            self._failed.update(errors)
            self._on_errors(server_round, errors)
        return super().aggregate_fit(server_round, results, failures)  # type: ignore[misc]

    def _errors_of(self, server_round: int) -> Errors:
        """The errors of a round, by party.  A client that Flower did not ask in it is waited for in
        vain."""
        slots = [(f"{party}/{_TOPIC}", server_round) for party in self._parties
                 if party not in self._failed]
        try:
            gathered = self._bus.gather(slots, need=0, timeout=_WAIT_S)
        except errbus.TimedOut as late:
            gathered = late.gathered
        return {topic.split("/")[0]: error for (topic, _), error in gathered.errors.items()}
