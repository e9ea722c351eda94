"""When the source of a pump may forget a message."""

from __future__ import annotations

from enum import Enum
from typing import Final

PREFETCH_COUNT: Final = 1000
"""Unacked messages at the source, unless something else is asked for."""


class AckMode(Enum):
    """When the source may forget a message; the values are RabbitMQ's."""

    ON_CONFIRM = "on-confirm"
    ON_PUBLISH = "on-publish"
    NO_ACK = "no-ack"
