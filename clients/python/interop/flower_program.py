# SPDX-License-Identifier: MPL-2.0
"""A server and three clients of Flower, which fit a line; each is started with its own name.

silo2 is killed in its third round, and silo3 raises in its fifth.  The server tells on standard
output what it learned, a line of JSON for each round with failures, and the model at the end.
"""
import json
import os
import sys

import flwr as fl
import numpy as np
from flower_errors import Watched, promised

import errbus

SILOS = ("silo1", "silo2", "silo3")
ROUNDS = 12
TRUE = np.array([3.0, -2.0])
KILLED_IN, RAISES_IN = 3, 5


class Silo(fl.client.NumPyClient):
    def __init__(self, name):
        self._name = name
        draw = np.random.default_rng(SILOS.index(name))
        self._x = draw.normal(size=(200, 2))
        self._y = self._x @ TRUE

    def fit(self, parameters, config):
        if self._name == "silo2" and config["server_round"] == KILLED_IN:
            os.kill(os.getpid(), 9)
        if self._name == "silo3" and config["server_round"] == RAISES_IN:
            raise ValueError("no batch left")  # the line of silo3
        model = parameters[0]
        for _ in range(5):
            model = model - 0.1 * self._x.T @ (self._x @ model - self._y) / len(self._y)
        return [model], len(self._y), {}


class Strategy(Watched, fl.server.strategy.FedAvg):
    def configure_fit(self, server_round, parameters, client_manager):
        if server_round == 1:
            client_manager.wait_for(len(SILOS), 150)
        return super().configure_fit(server_round, parameters, client_manager)

    def aggregate_fit(self, server_round, results, failures):
        if failures:
            print(json.dumps({"round": server_round, "flower": [repr(one) for one in failures]}))
        model, metrics = super().aggregate_fit(server_round, results, failures)
        self.model = fl.common.parameters_to_ndarrays(model)[0]
        return model, metrics


def on_errors(server_round, errors):
    for party, error in errors.items():
        print(json.dumps({"round": server_round, "party": party, "kind": error.kind,
                          "type": error.type, "message": error.message,
                          "trace": error.remote_traceback}), flush=True)


def serve(address):
    with errbus.open(party="server", timeout=60) as bus:
        strategy = Strategy(
            bus, SILOS, on_errors, fraction_evaluate=0.0, min_fit_clients=1,
            min_available_clients=1,
            initial_parameters=fl.common.ndarrays_to_parameters([np.zeros(2)]))
        fl.server.start_server(server_address=address, strategy=strategy,
                               config=fl.server.ServerConfig(num_rounds=ROUNDS))
        print(json.dumps({"model": list(strategy.model)}), flush=True)


def take_part(name, address):
    with errbus.open(party=name, disclosure="full", timeout=60) as bus:
        fl.client.start_client(server_address=address,
                               client=promised(Silo(name), bus).to_client())


if sys.argv[1] == "server":
    serve(sys.argv[2])
else:
    take_part(sys.argv[1], sys.argv[2])
