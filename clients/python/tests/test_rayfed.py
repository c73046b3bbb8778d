# SPDX-License-Identifier: MPL-2.0
"""errbus.rayfed where neither Ray nor RayFed is installed: small modules stand for both.

The tests are those of interop/test_rayfed_classes.py, which ./quickstart interop runs with the real
packages.  They call the two classes as RayFed's actors do.  What is here is about the stand-ins.
"""
import abc
import os
import pickle
import sys
import types

import pytest

sys.path.insert(0, f"{os.environ['ERRBUS_SOURCE']}/clients/python/interop")


class FedRemoteError(Exception):
    def __init__(self, src_party, cause):
        super().__init__(src_party, cause)
        self._src_party, self._cause = src_party, cause


class Config:
    @classmethod
    def from_dict(cls, given):
        made = cls()
        made.__dict__.update({"timeout_in_ms": 60_000, "expose_error_trace": False}, **given or {})
        return made


class SenderProxy(abc.ABC):
    def __init__(self, addresses, party, job_name, tls_config, proxy_config=None):
        self._party, self._job_name, self._proxy_config = party, job_name, proxy_config

    @abc.abstractmethod
    async def send(self, dest_party, data, upstream_seq_id, downstream_seq_id):
        pass

    async def is_ready(self):
        return True

    async def get_proxy_config(self, dest_party=None):
        return self._proxy_config

    @abc.abstractmethod
    async def stop(self):
        pass


class ReceiverProxy(abc.ABC):
    def __init__(self, listen_addr, party, job_name, tls_config, proxy_config=None):
        self._party, self._job_name, self._proxy_config = party, job_name, proxy_config

    @abc.abstractmethod
    def start(self):
        pass

    async def is_ready(self):
        return True

    @abc.abstractmethod
    async def get_data(self, src_party, upstream_seq_id, curr_seq_id):
        pass

    @abc.abstractmethod
    async def stop(self):
        pass


# Each module that errbus.rayfed imports, with what it takes of it.
STAND_INS = {
    "cloudpickle": {"dumps": pickle.dumps, "loads": pickle.loads},
    "fed": {}, "fed._private": {}, "fed.proxy": {},
    "fed._private.serialization_utils": {"_apply_loads_function_with_whitelist": None},
    "fed.cleanup": {"FedRemoteError": FedRemoteError},
    "fed.config": {"CrossSiloMessageConfig": Config},
    "fed.exceptions": {"FedRemoteError": FedRemoteError},
    "fed.proxy.base_proxy": {"SenderProxy": SenderProxy, "ReceiverProxy": ReceiverProxy},
    "ray": {"get_runtime_context": None},
    "ray.exceptions": {"RayTaskError": type("RayTaskError", (Exception,), {})},
}


def stand_in():
    for name, what in STAND_INS.items():
        made = types.ModuleType(name)
        made.__path__ = []
        made.__dict__.update(what)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, made)
        sys.modules[name] = made


pytest.register_assert_rewrite("test_rayfed_classes")
BEFORE = {name: sys.modules.get(name) for name in STAND_INS}
stand_in()
from test_rayfed_classes import *  # noqa: E402, F401, F403

import errbus.rayfed  # noqa: E402

for name, module in BEFORE.items():
    if module is None:
        del sys.modules[name]
    else:
        sys.modules[name] = module


def test_ray_s_traceback_of_a_task_goes_with_its_exception():
    """RayFed makes a FedRemoteError where Ray raised a RayTaskError, which alone has the lines."""
    cause = ValueError("no batch left")
    try:
        raise errbus.rayfed.RayTaskError("train.py, line 7")
    except Exception:
        made = errbus.rayfed.fed.cleanup.FedRemoteError("alice", cause)
    assert isinstance(made, FedRemoteError) and made._cause is cause
    assert cause.__notes__ == ["train.py, line 7"]


def test_an_actor_that_ray_started_again_is_asked_for(monkeypatch):
    context = types.SimpleNamespace(was_current_actor_reconstructed=True)
    monkeypatch.undo()  # of the fixture, which answers in Ray's place
    monkeypatch.setattr(errbus.rayfed.ray, "get_runtime_context", lambda: context)
    assert errbus.rayfed._was_started_again() is True


@pytest.mark.parametrize("text, level", [
    ("12#0", "12.0"), (13, "13"), ("a/b", "a%2Fb"), ("a+b", "a%2Bb"), ("50%", "50%25")])
def test_an_id_of_rayfed_is_one_level_of_a_topic(text, level):
    assert errbus.rayfed._level(text) == level
