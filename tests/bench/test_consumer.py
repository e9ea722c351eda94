"""Counting deliveries by their bytes, from a stub broker that sends what a test wants."""

import socket
import struct

import pytest

from bench import consumer
from bench.amqp_frames import BASIC, Frame
from bench.consumer import ConsumeOrder, ConsumeResult, consume
from bench.delivery_counter import CONSUME_CHANNEL
from bench.errors import BrokenRhythmError
from bench.stub_broker import StubBroker, encode_deliveries
from bench.worker import Counters, StartLine

BLOCK_MESSAGES = 10
ONE = ("bench",)
TWO = ("bench", "another")

each_way = pytest.mark.parametrize(
    ("queues", "is_timed"),
    [(ONE, False), (ONE, True), (TWO, False)],
    ids=["one consumer", "one consumer with latencies", "two consumers"],
)


class Started(StartLine):
    """A start line without a coordinator."""

    def __init__(self) -> None:
        """Needs no pipe."""

    def wait(self) -> None:
        """Start at once."""

    def cpu_seconds(self) -> float:
        return 0.0


def encode(count: int) -> bytes:
    return encode_deliveries(
        count, BLOCK_MESSAGES, channel=CONSUME_CHANNEL, routing_key="bench", body_bytes=128
    )


def count(
    deliveries: bytes,
    expected: int,
    *,
    queues: tuple[str, ...] = ONE,
    is_timed: bool = False,
    ack_every: int = 100,
    publishers: int = 1,
    marks_seconds: tuple[float, ...] = (),
) -> ConsumeResult:
    """Consume these bytes from each queue; `expected` messages come from each."""
    with StubBroker(deliveries) as stub:
        counters = Counters()
        counters.expected.value = expected * len(queues)
        order = ConsumeOrder(
            stub.url,
            queues,
            BLOCK_MESSAGES,
            prefetch=1000,
            ack_every=ack_every,
            is_timed=is_timed,
            publishers=publishers,
            marks_seconds=marks_seconds,
        )
        return consume(Started(), order, counters)


@each_way
@pytest.mark.parametrize("ack_every", [1, 250])
@pytest.mark.parametrize("number", [1, 99, 25_000])
def test_every_delivery_is_counted(
    number: int, ack_every: int, queues: tuple[str, ...], is_timed: bool
) -> None:
    result = count(encode(number), number, queues=queues, is_timed=is_timed, ack_every=ack_every)

    assert result.received_of_each == (number,) * len(queues)
    assert result.received == result.distinct == number * len(queues)
    assert len(result.latencies_ns) == (number if is_timed else 0)
    assert result.end_ns >= result.start_ns


@each_way
def test_a_message_that_is_missing_in_the_middle_is_noticed(
    queues: tuple[str, ...], is_timed: bool
) -> None:
    whole, one = encode(500), len(encode(1))

    with pytest.raises(BrokenRhythmError):
        count(whole[: 200 * one] + whole[201 * one :], 499, queues=queues, is_timed=is_timed)


@each_way
def test_a_message_that_comes_twice_is_noticed(queues: tuple[str, ...], is_timed: bool) -> None:
    whole, one = encode(500), len(encode(1))

    with pytest.raises(BrokenRhythmError):
        count(whole[: 200 * one] + whole[199 * one :], 501, queues=queues, is_timed=is_timed)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the consumers' wait for messages that never come."""
    monkeypatch.setattr(consumer, "IDLE_SECONDS_MAX", 0.05)


@pytest.mark.usefixtures("impatient")
@each_way
def test_messages_missing_at_the_end_are_not_counted(
    queues: tuple[str, ...], is_timed: bool
) -> None:
    result = count(encode(300), 301, queues=queues, is_timed=is_timed)

    assert result.received_of_each == (300,) * len(queues)


@pytest.mark.usefixtures("impatient")
@each_way
def test_a_queue_that_delivers_nothing_ends_the_wait(
    queues: tuple[str, ...], is_timed: bool
) -> None:
    result = count(b"", 1, queues=queues, is_timed=is_timed)

    assert (result.received, result.end_ns) == (0, 0)


@pytest.mark.usefixtures("impatient")
@each_way
def test_half_a_delivery_at_the_end_is_noticed(queues: tuple[str, ...], is_timed: bool) -> None:
    with pytest.raises(BrokenRhythmError, match="100 bytes of a delivery at the end"):
        count(encode(300) + encode(1)[:100], 301, queues=queues, is_timed=is_timed)


class LastAfterAck(StubBroker):
    """Sends one more delivery after the first ack of each consumer."""

    def __init__(self, deliveries: bytes) -> None:
        super().__init__(deliveries)
        self._acked: set[socket.socket] = set()

    def _answer(self, client: socket.socket, request: Frame) -> None:
        super()._answer(client, request)
        if request.method_id == (BASIC, 80) and client not in self._acked:
            self._acked.add(client)
            client.sendall(encode(2)[len(encode(1)) :])


@pytest.mark.parametrize("queues", [ONE, TWO], ids=["one consumer", "two consumers"])
def test_a_last_delivery_smaller_than_a_read_waits_for_is_counted(
    queues: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "IDLE_SECONDS_MAX", 2)
    counters = Counters()
    counters.expected.value = 2 * len(queues)
    with LastAfterAck(encode(1)) as stub:
        order = ConsumeOrder(stub.url, queues, BLOCK_MESSAGES, prefetch=1000, ack_every=1)
        result = consume(Started(), order, counters)

    assert result.received_of_each == (2,) * len(queues)


class AckLog(StubBroker):
    """Keeps tag and `multiple` of each ack, in their order."""

    def __init__(self, deliveries: bytes) -> None:
        super().__init__(deliveries)
        self.acks: list[tuple[int, int]] = []

    def _answer(self, client: socket.socket, request: Frame) -> None:
        super()._answer(client, request)
        if request.method_id == (BASIC, 80):
            self.acks.append(struct.unpack_from(">QB", request.payload, 4))


@pytest.mark.parametrize("ack_every", [1, 4])
def test_each_delivery_gets_an_ack_of_its_own_or_one_for_several(ack_every: int) -> None:
    counters = Counters()
    counters.expected.value = 10
    with AckLog(encode(10)) as stub:
        order = ConsumeOrder(stub.url, ONE, BLOCK_MESSAGES, prefetch=100, ack_every=ack_every)
        consume(Started(), order, counters)

    if ack_every == 1:
        assert stub.acks == [(tag, 0) for tag in range(1, 11)]
    else:
        assert stub.acks[-1] == (10, 1)
        assert all(multiple for _, multiple in stub.acks)


def test_consumers_that_share_a_queue_notice_what_comes_twice() -> None:
    result = count(encode(300), 300, queues=("bench", "bench"), publishers=2)

    assert (result.received, result.distinct) == (600, 300)


def test_a_publisher_that_does_not_exist_is_noticed() -> None:
    unknown = encode(1)[:-129] + b"\0\7" + encode(1)[-127:]
    assert len(unknown) == len(encode(1))

    with pytest.raises(BrokenRhythmError, match="of publisher"):
        count(unknown, 1, publishers=2)


@pytest.mark.usefixtures("impatient")
@each_way
def test_deliveries_are_noted_at_the_marks(queues: tuple[str, ...], is_timed: bool) -> None:
    result = count(encode(300), 301, queues=queues, is_timed=is_timed, marks_seconds=(0.0, 0.02))

    assert result.received_at[-1] == (300,) * len(queues)
