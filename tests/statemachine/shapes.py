"""The queues of a machine run: one of each kind that behaves in its own way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

LIMITED_BYTES: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a queue is declared with.

    Attributes:
        name: Without the prefix of the run.
        durable: As declared.
        exclusive: As declared.
        auto_delete: As declared.
        max_length: `x-max-length`.
        max_bytes: `x-max-length-bytes`.
        overflow: `x-overflow`.
        max_priority: `x-max-priority`.
        ttl_ms: `x-message-ttl`.
        delivery_limit: `x-delivery-limit`; the queue is a quorum queue then.
        dead_to: `x-dead-letter-exchange` and `x-dead-letter-routing-key`; the exchange `""`
            takes the name of a shape.
    """

    name: str
    durable: bool = True
    exclusive: bool = False
    auto_delete: bool = False
    max_length: int | None = None
    max_bytes: int | None = None
    overflow: str = "drop-head"
    max_priority: int | None = None
    ttl_ms: int | None = None
    delivery_limit: int | None = None
    dead_to: tuple[str, str] | None = None

    @property
    def survives(self) -> bool:
        """Whether it is there after a restart."""
        return self.durable and not self.exclusive

    @property
    def refuses(self) -> bool:
        """Whether a publish can be refused."""
        return self.overflow != "drop-head"

    @property
    def is_plain(self) -> bool:
        """Whether what is published in a burst needs no thought."""
        limits = (self.max_length, self.max_bytes, self.max_priority)
        return self.ttl_ms != 0 and limits == (None, None, None)

    def arguments(self, prefix: str) -> dict[str, Any]:
        """Return the table to declare it with.

        Args:
            prefix: Before the names of exchanges and queues.
        """
        table: dict[str, Any] = {
            "x-max-length": self.max_length,
            "x-max-length-bytes": self.max_bytes,
            "x-max-priority": self.max_priority,
            "x-message-ttl": self.ttl_ms,
        }
        if self.refuses:
            table["x-overflow"] = self.overflow
        if self.delivery_limit is not None:
            table |= {"x-queue-type": "quorum", "x-delivery-limit": self.delivery_limit}
        if self.dead_to is not None:
            exchange, key = self.dead_to
            table["x-dead-letter-exchange"] = prefix + exchange if exchange else ""
            table["x-dead-letter-routing-key"] = key if exchange else prefix + key
        return {name: value for name, value in table.items() if value is not None}


# Dead letters from several queues come to queues without limits only: in which order they come
# is nobody's promise, and a limit would make of the order a difference in what is left.
SHAPES: Final = {
    shape.name: shape
    for shape in (
        Shape(name="plain"),
        Shape(name="transient", durable=False),
        Shape(name="mine", exclusive=True),
        Shape(name="brief", auto_delete=True),
        Shape(name="short", max_length=3, dead_to=("", "sink")),
        Shape(name="small", max_bytes=LIMITED_BYTES),
        Shape(name="full", max_length=2, overflow="reject-publish"),
        Shape(name="spill", max_length=2, overflow="reject-publish-dlx", dead_to=("", "sink")),
        Shape(name="levels", max_priority=3),
        Shape(name="few-levels", max_priority=2, max_length=3, dead_to=("", "sink")),
        Shape(name="at-once", ttl_ms=0, dead_to=("", "sink")),
        Shape(name="hour", ttl_ms=3_600_000, dead_to=("fanout", "any")),
        Shape(name="counted", delivery_limit=1, dead_to=("", "sink")),
        Shape(name="loop", max_length=3, dead_to=("", "loop")),
        Shape(name="ping", dead_to=("", "pong")),
        Shape(name="pong", ttl_ms=0, dead_to=("", "ping")),
        Shape(name="sink"),
    )
}

EXCHANGES: Final = {"direct": "direct", "fanout": "fanout", "topic": "topic", "passing": "fanout"}
"""Name and type; all are durable but `passing`."""
KEYS: Final = ("a", "a.b", "b")
TOPICS: Final = ("a", "a.*", "#", "*.b")
