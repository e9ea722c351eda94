"""A client of a machine run: sends a method, waits for its answer, keeps all else that comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from pamqp import body, header
from pamqp.base import Frame
from pamqp.commands import Basic, Channel

from tests.amqp_client import AnyFrame, Message, connect, describe

AnswerT = TypeVar("AnswerT", bound=Frame)
ROUND_TRIP_CHANNEL = 9
"""A channel that nothing else happens on."""


@dataclass(slots=True)
class Events:
    """What came without having been asked for, in order within each list.

    Attributes:
        deliveries: With their channels.
        answers: To publishes: channel, and a return's body, or whether it is an ack and the tags.
        cancelled: Consumers that the server ended: channel and tag.
    """

    deliveries: list[tuple[int, Message]] = field(default_factory=list)
    answers: list[tuple[int, bytes | tuple[bool, int, bool]]] = field(default_factory=list)
    cancelled: list[tuple[int, str]] = field(default_factory=list)


class Peer:
    """One connection.

    Args:
        address: Of the server.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.client = connect(address)
        self.events = Events()
        self.client.open_channel(ROUND_TRIP_CHANNEL)

    def call(self, method: Frame, answer: type[AnswerT], channel: int) -> AnswerT:
        """Send a method and return its answer."""
        self.client.send(method, channel)
        return self.expect(answer, channel)

    def expect(self, kind: type[AnswerT], channel: int) -> AnswerT:
        """Return the next method of this kind."""
        number, value = self._receive()
        while not isinstance(value, kind):
            self._keep(number, value)
            number, value = self._receive()
        assert number == channel, f"{describe(value)} on channel {number}, not {channel}"
        return value

    def get(self, queue: str, channel: int, *, no_ack: bool) -> Message | None:
        """Get a message."""
        self.client.send(Basic.Get(queue=queue, no_ack=no_ack), channel)
        while True:
            number, value = self._receive()
            if isinstance(value, Basic.GetEmpty):
                return None
            if isinstance(value, Basic.GetOk):
                assert number == channel
                return self._message(value)
            self._keep(number, value)

    def round_trip(self) -> None:
        """Return when everything that the server wrote before is here."""
        self.call(Channel.Flow(active=True), Channel.FlowOk, ROUND_TRIP_CHANNEL)

    def await_answers(self, count: int) -> None:
        """Return when that many publishes, all of one channel, have been confirmed or refused."""
        answers = self.events.answers
        while max((each[1] for _, each in answers if isinstance(each, tuple)), default=0) < count:
            self._keep(*self._receive())

    def _receive(self) -> tuple[int, AnyFrame]:
        return self.client.receive()

    def _keep(self, number: int, value: AnyFrame) -> None:
        match value:
            case Basic.Deliver():
                self.events.deliveries.append((number, self._message(value)))
            case Basic.Return():
                self.events.answers.append((number, self._message(value).body))
            case Basic.Ack() | Basic.Nack():
                assert value.delivery_tag is not None
                answer = (isinstance(value, Basic.Ack), value.delivery_tag, bool(value.multiple))
                self.events.answers.append((number, answer))
            case Basic.Cancel():
                self.events.cancelled.append((number, str(value.consumer_tag)))
            case _:
                raise AssertionError(f"unexpected {describe(value)} on channel {number}")

    def _message(self, method: Basic.Deliver | Basic.GetOk | Basic.Return) -> Message:
        _, head = self._receive()
        assert isinstance(head, header.ContentHeader), describe(head)
        octets = b""
        while len(octets) < head.body_size:
            _, part = self._receive()
            assert isinstance(part, body.ContentBody), describe(part)
            octets += part.value
        return Message(method, head.properties, octets)
