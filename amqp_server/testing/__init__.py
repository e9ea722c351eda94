"""The broker inside a test run: real, empty for each test, and there in a few milliseconds.

    from amqp_server.testing import Broker

    with Broker() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

`amqp_server.testing.plugin` offers the same as fixtures of pytest. This module imports nothing, so
that pytest can load the plugin without the broker. Its names are imported at their first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amqp_server.testing.broker import Broker
    from amqp_server.testing.broker_process import BrokerProcess
    from amqp_server.testing.clock import TurnedClock
    from amqp_server.testing.errors import (
        BrokerLeakWarning,
        BrokerProcessError,
        BrokerStateError,
        FaultError,
        NoSuchConnectionError,
        NoSuchQueueError,
    )
    from amqp_server.testing.message import Message
    from amqp_server.testing.rest import ClockError
    from amqp_server.testing.virtual_host import VirtualHost

__all__ = [
    "Broker",
    "BrokerLeakWarning",
    "BrokerProcess",
    "BrokerProcessError",
    "BrokerStateError",
    "ClockError",
    "FaultError",
    "Message",
    "NoSuchConnectionError",
    "NoSuchQueueError",
    "TurnedClock",
    "VirtualHost",
]

_MODULES = {
    "Broker": "broker",
    "BrokerLeakWarning": "errors",
    "BrokerProcess": "broker_process",
    "BrokerProcessError": "errors",
    "BrokerStateError": "errors",
    "ClockError": "rest",
    "FaultError": "errors",
    "Message": "message",
    "NoSuchConnectionError": "errors",
    "NoSuchQueueError": "errors",
    "TurnedClock": "clock",
    "VirtualHost": "virtual_host",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of any type, as the module's names are
    """Import a public name at its first use."""
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
