"""How the table's experiments count: what is missing, repeated or out of place is found."""

import re

import pytest
from pamqp import commands, frame

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import CONSUME_CHANNEL
from bench.errors import BenchError, BrokenRhythmError, UnexpectedFrameError
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL
from bench.rows import counting, topic
from bench.rows.counting import CountOrder, CountResult, count_deliveries
from bench.rows.get_loop import GetClient, GetOrder
from bench.rows.many_clients import passed_between_marks, spread_percent
from bench.stub_broker import StubBroker, encode_deliveries
from bench.worker import Counters, StartLine
from tests.servers import RunningServer

BLOCK_MESSAGES = 10


class Started(StartLine):
    """A start line that nobody waits at."""

    def __init__(self) -> None:
        """Have no coordinator."""

    def wait(self) -> None:
        """Start."""

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
    ack_every: int = 0,
    marks_seconds: tuple[float, ...] = (),
) -> CountResult:
    """Let a consumer of one queue count these bytes."""
    with StubBroker(deliveries) as stub:
        counters = Counters()
        counters.expected.value = expected
        order = CountOrder(
            stub.url,
            ("bench",),
            BLOCK_MESSAGES,
            prefetch=1000,
            ack_every=ack_every,
            marks_seconds=marks_seconds,
        )
        return count_deliveries(Started(), order, counters)


@pytest.mark.parametrize("ack_every", [0, 250])
@pytest.mark.parametrize("number", [1, 99, 25_000])
def test_every_delivery_of_a_queue_is_counted(number: int, ack_every: int) -> None:
    assert count(encode(number), number, ack_every=ack_every).received == (number,)


def test_a_message_that_is_missing_in_the_middle_is_noticed() -> None:
    whole, one = encode(500), len(encode(1))

    with pytest.raises(BrokenRhythmError):
        count(whole[: 200 * one] + whole[201 * one :], 499)


def test_messages_missing_at_the_end_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "IDLE_SECONDS_MAX", 0.05)

    assert count(encode(300), 301).received == (300,)


def test_half_a_delivery_at_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "IDLE_SECONDS_MAX", 0.05)

    with pytest.raises(BrokenRhythmError, match="100 bytes of a delivery at the end"):
        count(encode(300) + encode(1)[:100], 301)


def test_fairness_is_what_each_queue_gave_between_the_marks() -> None:
    seen = CountResult((90, 90), 0, 0.0, ((10, 20), (40, 80)))

    assert passed_between_marks(seen) == (30, 60)
    with pytest.raises(BenchError, match="over before"):
        passed_between_marks(CountResult((90, 90), 0, 0.0, ((10, 20),)))


def test_what_was_received_is_noted_at_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "IDLE_SECONDS_MAX", 0.05)

    assert count(encode(300), 301, marks_seconds=(0.0, 0.02)).received_at[-1] == (300,)


def test_a_spread_is_the_distance_of_the_extremes_by_the_mean() -> None:
    assert spread_percent([90, 100, 110]) == 20
    assert spread_percent([5, 5]) == 0
    assert spread_percent([0, 0]) == 0


def test_each_routing_key_of_the_topic_exchange_matches_one_binding() -> None:
    keys = topic.routing_keys()
    patterns = [
        re.compile(
            topic.pattern(line)
            .replace(".", r"\.")
            .replace("*", "[^.]+")
            .replace(r"\.#", r"(\..*)?")
            .replace(r"#\.", r"(.*\.)?")
        )
        for line in range(topic.LINES)
    ]

    assert len(set(keys)) == len(keys) == 10_000
    for key in keys[::97]:
        assert sum(bool(each.fullmatch(key)) for each in patterns) == 1


def test_a_block_may_have_a_routing_key_for_each_publish() -> None:
    block = PublishBlock(1, "", body_bytes=16, exchange="x", routing_keys=("a.1", "b.2"))
    octets = block.encode(0, 0)
    found = []
    while octets:
        consumed, _, parsed = frame.unmarshal(octets)
        octets = octets[consumed:]
        if isinstance(parsed, commands.Basic.Publish):
            found.append((parsed.exchange, parsed.routing_key))

    assert found == [("x", "a.1"), ("x", "b.2")]
    with pytest.raises(ValueError, match="differ in length"):
        PublishBlock(1, "", body_bytes=16, routing_keys=("a", "bb"))


def test_a_get_that_skips_a_message_is_noticed(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    order = GetOrder(url, "q", BLOCK_MESSAGES, seconds=5, is_acknowledged=True)
    with Connection(url, PUBLISH_CHANNEL) as filling, Connection(url, 7) as getting:
        filling.declare_queue("q", durable=False)
        block = PublishBlock(PUBLISH_CHANNEL, "q", body_bytes=128, block_messages=BLOCK_MESSAGES)
        filling.send(block.encode(0, 0) + block.encode(2, 0))
        assert filling.count_ready("q") == 2 * BLOCK_MESSAGES

        with pytest.raises(BrokenRhythmError, match="message 20"):
            GetClient(getting, order).run()


def test_a_get_from_an_empty_queue_is_noticed(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    order = GetOrder(url, "q", BLOCK_MESSAGES, seconds=5, is_acknowledged=False)
    with Connection(url, 7) as connection:
        connection.declare_queue("q", durable=False)
        with pytest.raises(UnexpectedFrameError, match=r"get-ok"):
            GetClient(connection, order).run()
