"""The open log of a queue, and what its checkpoint says about its messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from amqp_server.broker.rules.unloaded_attributes import UnloadedAttributes
    from amqp_server.broker.storing.storage_settings import StorageSettings
    from appendlog import Log


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """An open log, and what its checkpoint says about it.

    Attributes:
        log: The open log.
        settings: How the queue is kept on the disk.
        ack_floor: Offset below which everything is settled.
        acked_ranges: Settled ranges above the floor.
        delivered_watermark: Offset below which messages may have been delivered before.
        redeliveries: Redelivered runs as (start, end, count); count 0 means unknown. Runs with a
            known count are disjoint.
        attributes: Attributes of all unsettled messages, if the queue's rules need them. While
            `unread` is set they are empty and start at the log's end.
        unread: Loads the attributes of the unsettled messages; None if this is already done.
    """

    log: Log
    settings: StorageSettings
    ack_floor: int = 0
    acked_ranges: Sequence[tuple[int, int]] = field(default_factory=tuple)
    delivered_watermark: int = 0
    redeliveries: Sequence[tuple[int, int, int]] = field(default_factory=tuple)
    attributes: MessageAttributes | None = None
    unread: UnloadedAttributes | None = None
