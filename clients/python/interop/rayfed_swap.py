# SPDX-License-Identifier: MPL-2.0
"""A plugin of pytest: RayFed's own tests over Errbus.

The classes of RayFed's gRPC become those of errbus.rayfed, before a test imports them.  Each test
has a broker of its own at $ERRBUS_SERVER, which the processes of the test inherit.
"""
import os

import fed.proxy.grpc.grpc_proxy as grpc_proxy
import pytest
from broker import Broker

import errbus.rayfed

grpc_proxy.GrpcSenderProxy = errbus.rayfed.Sender
grpc_proxy.GrpcReceiverProxy = errbus.rayfed.Receiver


@pytest.fixture(autouse=True)
def _errbus():
    with Broker() as broker:
        os.environ["ERRBUS_SERVER"] = broker.endpoint
        yield
        del os.environ["ERRBUS_SERVER"]
