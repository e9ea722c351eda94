"""How a store writes the messages of its queue."""

from dataclasses import dataclass

from amqp_server.base.config import Durability


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Bounds and guarantees of a store's writes.

    Attributes:
        durability: What must have happened to a persistent message before it counts as safe.
        flush_bytes: Most message bytes in a chunk; a larger message has a chunk of its own.
        flush_interval_seconds: Longest that a small chunk waits while input goes on.
    """

    durability: Durability
    flush_bytes: int
    flush_interval_seconds: float
