"""Channels and consumers without a broker behind them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

from amqp_server.base.config import Limits, ServerConfig
from amqp_server.broker.channel import Channel
from amqp_server.broker.consuming.consumer import Consumer
from amqp_server.broker.counters.channel_counters import ChannelCounters
from amqp_server.broker.counters.counted_channels import CountedChannels
from amqp_server.broker.counters.delivery_pair import DeliveryPair
from amqp_server.broker.inner_client import InnerClient
from amqp_server.broker.storing.storage import QueueStorage
from amqp_server.broker.virtual_host import VirtualHost
from appendlog import FileSystem

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.consuming.consumer import ConsumedQueue, DeliveryChannel
    from amqp_server.broker.storing.client_writes import Writes
    from amqp_server.broker.storing.window_reader import ReadInWorker
    from amqp_server.broker.turn import Turn


_COUNTERS: Final = ChannelCounters("test", 1, VirtualHost("/"), CountedChannels())
"""Counters of the channel of all consumers that have none."""


def a_channel(turn: Turn, client: InnerClient | None = None) -> Channel:
    """Return the first channel of a client, in a virtual host of its own."""
    storage = QueueStorage(
        ServerConfig(storage_path=Path("nowhere")),
        cast("Writes", None),
        cast("ReadInWorker", None),
        turn,
        FileSystem(),
        lambda _result: None,
    )
    broker = SimpleNamespace(config=SimpleNamespace(limits=Limits()), turn=turn, storage=storage)
    client = client or InnerClient("test")
    return Channel(1, client, VirtualHost("/"), cast("Broker", broker))


def a_consumer(timeout_ms: int = 0) -> Consumer:
    """Return a consumer of no queue."""
    return Consumer(
        "tag",
        cast("DeliveryChannel", None),
        cast("ConsumedQueue", None),
        DeliveryPair(_COUNTERS, None),
        no_ack=False,
        exclusive=False,
        prefetch=0,
        timeout_ms=timeout_ms,
    )
