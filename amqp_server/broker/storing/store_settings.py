"""How the messages of a queue are written."""

from dataclasses import dataclass

from amqp_server.config import Durability


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How a store writes.

    Attributes:
        durability: When a persistent message counts as safe.
        flush_bytes: Message bytes in a chunk at most; a larger message is alone in its own.
        flush_interval_seconds: Longest that a chunk waits for company while input goes on.
    """

    durability: Durability
    flush_bytes: int
    flush_interval_seconds: float
