"""One consumer of a group, on a connection of its own, without sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pamqp import body, header
from pamqp.commands import Basic, Channel

from tests.faults.inline_server import InlineClient, InlineServer

STREAM = "s"
SHORT_LIVED: dict[str, Any] = {
    "x-queue-type": "stream",
    "x-max-age": "1h",
    "x-segment-max-age": 60_000,
}
"""Arguments of a stream that lets go of what is older than an hour."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery, with what its headers say; None where there is none."""

    tag: int
    offset: int
    redelivered: bool
    body: bytes
    delivery_count: int | None
    dropped: int | None


@dataclass(slots=True, eq=False)
class Member:
    """One consumer.

    Attributes:
        client: Its connection.
        group: Name of its group; empty for a plain consumer of the stream.
        prefetch: Deliveries it may have unanswered.
        unacked: Unanswered, in order of their tags.
        next_offset: What is not redelivered must not lie below it (I7).
        stale: Tags whose answers only give credit: the group was moved behind them.
    """

    client: InlineClient
    group: str
    prefetch: int
    unacked: dict[int, int] = field(default_factory=dict)
    next_offset: int = 0
    stale: set[int] = field(default_factory=set)

    @property
    def credit(self) -> int:
        """How many more deliveries it may be given."""
        return self.prefetch - len(self.unacked)

    def collect(self) -> list[Delivery]:
        """Return what has come since."""
        return [self._next() for _ in range(self._waiting())]

    def _waiting(self) -> int:
        return sum(isinstance(value, Basic.Deliver) for _, value in self.client.received)

    def _next(self) -> Delivery:
        method = self.client.take(Basic.Deliver)
        head = self.client.take(header.ContentHeader)
        content = b""
        while len(content) < head.body_size:
            content += self.client.take(body.ContentBody).value
        headers = head.properties.headers or {}
        return Delivery(
            method.delivery_tag,
            headers["x-stream-offset"],
            method.redelivered,
            content,
            headers.get("x-delivery-count"),
            headers.get("x-dropped-since-last-poll"),
        )


def join(
    server: InlineServer, group: str, prefetch: int, arguments: dict[str, Any] | None = None
) -> Member | Channel.Close:
    """Return a new consumer of the stream, or the refusal."""
    client = server.connect()
    client.call(Basic.Qos(prefetch_count=prefetch))
    every = dict(arguments or {})
    if group:
        every["x-consumer-group"] = group
    client.send(Basic.Consume(queue=STREAM, consumer_tag="c", arguments=every))
    server.settle()
    _, answer = client.received.popleft()
    if isinstance(answer, Channel.Close):
        client.hang_up()
        server.settle()
        server.clients.remove(client)
        return answer
    assert isinstance(answer, Basic.ConsumeOk), f"{answer}"
    return Member(client, group, prefetch)
