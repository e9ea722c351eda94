"""The messages of the traffic generator, as an independent client decodes them."""

import itertools
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from random import Random
from zlib import crc32

import pika
import pytest

from bench.amqp_frames import BODY, Frame, acknowledge, parse_frames
from bench.connection import Connection
from bench.delivery_counter import CONSUME_CHANNEL
from bench.errors import UnexpectedFrameError
from bench.our_server import start_our_server
from bench.publisher import PUBLISH_CHANNEL
from bench.running_broker import RunningBroker
from bench.traffic.consuming import VerifyingReader
from bench.traffic.corpus import Corpus, encode_publish, new_body
from bench.traffic.frames import DeliveryScanner, SeenMessages, mixed
from bench.traffic.message_source import CORPUS_MESSAGES, ServiceMessages
from bench.traffic.rows.celery import record_tasks
from bench.traffic.shape import (
    BINDINGS,
    FEW_KEYS,
    PLACEHOLDER,
    SERVICE_SIZES,
    Sizes,
    binding_keys,
    few_routing_keys,
    service_properties,
    unbounded_routing_key,
)
from bench.traffic.topology import Topology
from tests.limits import HANG_SECONDS

SEED = 20_261_122
SECOND = 1_793_000_000
STAMP = 12_345_678_901


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    # Interpreted: the test must also run where the kernels are not compiled.
    with start_our_server("ours", tmp_path_factory.mktemp("server"), is_pure=True) as running:
        yield running


def connect(broker: RunningBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            broker.url.host, broker.url.port, blocked_connection_timeout=HANG_SECONDS
        )
    )


def take_all(broker: RunningBroker, queue: str) -> list[tuple[str, pika.BasicProperties, bytes]]:
    """Return routing key, properties and body of each message of a queue, as pika decodes them."""
    found = []
    connection = connect(broker)
    channel = connection.channel()
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((got[0].routing_key, got[1], got[2]))
    connection.close()
    return found


def check_body(body: bytes, serial: int) -> None:
    assert int(body[:16], 16) == serial
    assert int(body[16:32], 16) == STAMP
    assert int(body[32:40], 16) == crc32(body[:32], crc32(body[40:]))


def test_pika_decodes_what_was_meant(broker: RunningBroker) -> None:
    topology = Topology(("bench-0", "bench-1"))
    source = ServiceMessages(topology.exchange, queues=2, has_new_keys=True, count=200)
    corpus = source.encode_corpus(SEED)
    meant = list(corpus_bodies(source, 200))
    first_serial = 1 << 56 | 5 << 40 | 1000
    with topology.declared(broker.url) as connection:
        frames = corpus.renew(0, 200, first_serial, SEED, STAMP, SECOND * 10**9)
        connection.send(bytes(frames))
        connection.count_ready("bench-0")  # answered after all publishes
        found = [each for queue in topology.queues for each in take_all(broker, queue)]

    assert len(found) == 200
    by_serial = {int(body[:16], 16): (key, properties, body) for key, properties, body in found}
    for at in range(200):
        key, properties, body = by_serial[first_serial + at]
        identity = f"{mixed(first_serial + at, SEED):016x}"
        check_body(body, first_serial + at)
        assert body[40:] == meant[at][40:]
        assert properties.content_type == "application/octet-stream"
        assert properties.delivery_mode == 2
        assert properties.timestamp == SECOND
        assert set(properties.headers) == {"traceparent", "tenant", "attempt"}
        assert re.fullmatch(
            f"00-[0-9a-f]{{16}}{identity}-[0-9a-f]{{16}}-01", properties.headers["traceparent"]
        )
        assert re.fullmatch(r"tenant-\d+", properties.headers["tenant"])
        assert 1 <= properties.headers["attempt"] <= 5
        uuid = rf"[0-9a-f]{{8}}-[0-9a-f]{{4}}-4a5b-{identity[:4]}-{identity[4:]}"
        assert re.fullmatch(uuid, properties.message_id)
        assert (properties.correlation_id is not None) == (at % 3 == 0)
        assert at % 3 or re.fullmatch(uuid, properties.correlation_id)
        assert key.split(".")[3] == identity


def corpus_bodies(source: ServiceMessages, count: int) -> Iterator[bytes]:
    """Return the bodies of a source, from its corpus without new ids."""
    frames = parse_frames(source.encode_corpus(SEED).view)
    return itertools.islice((each.payload for each in frames if each.kind == BODY), count)


def test_sizes_are_log_normal_within_their_bounds() -> None:
    random = Random(1)
    sizes = [SERVICE_SIZES.draw(random) for _ in range(20_000)]

    assert min(sizes) == 40
    assert max(sizes) <= 60_000
    assert 570 < statistics.median(sizes) < 630
    assert len(set(sizes)) > 2_000
    assert {Sizes(600, 1.0, 40, 100).draw(random) for _ in range(1000)} <= set(range(40, 101))


def test_a_seed_replays_and_another_one_does_not() -> None:
    source = ServiceMessages("exchange", 4, has_new_keys=True, count=500)

    def octets(seed: int) -> bytes:
        corpus = source.encode_corpus(seed)
        corpus.renew(0, corpus.count, 0, seed, STAMP, 0)
        return bytes(corpus.view)

    assert octets(1) == octets(1)
    assert octets(1) != octets(2)


def routing_key(publish: Frame) -> str:
    exchange_end = 7 + publish.payload[6]
    return publish.payload[exchange_end + 1 :][: publish.payload[exchange_end]].decode()


def test_no_key_repeats_in_a_run_however_often_the_corpus_is_sent() -> None:
    random = Random(SEED)
    corpus = Corpus(
        encode_publish(
            PUBLISH_CHANNEL,
            "exchange",
            unbounded_routing_key(random, 4),
            service_properties(random, persistent=True, has_correlation=False),
            new_body(random, 40),
        )
        for _ in range(300)
    )
    keys: list[str] = []
    for phase, publisher, first in itertools.product((0, 1), (0, 1), (0, 300, 600)):
        serial = phase << 56 | publisher << 40 | first
        frames = parse_frames(corpus.renew(0, 300, serial, SEED, STAMP, 0))
        keys += [routing_key(each) for each in frames if each.method_id == (60, 40)]

    assert len(keys) == len(set(keys)) == 3600
    assert not any(PLACEHOLDER in key for key in keys)


@pytest.mark.parametrize("queues", [1, 4, 16])
def test_each_key_matches_one_binding_of_one_queue(queues: int) -> None:
    patterns = [
        re.compile(
            key.replace(".", r"\.")
            .replace("*", "[^.]+")
            .replace(r"\.#", r"(\..*)?")
            .replace(r"#\.", r"(.*\.)?")
        )
        for queue in range(queues)
        for key in binding_keys(queue)
    ]
    random = Random(2)
    few = few_routing_keys(queues)
    unbounded = [unbounded_routing_key(random, queues) for _ in range(50)]

    assert len(patterns) == queues * BINDINGS
    assert len(set(few)) == FEW_KEYS
    matching: Counter[int] = Counter()
    for key in [*few, *unbounded]:
        (at,) = [at for at, each in enumerate(patterns) if each.fullmatch(key)]
        matching[at // BINDINGS] += 1
    assert len(matching) == queues


def test_a_corpus_has_tens_of_thousands_of_messages() -> None:
    assert CORPUS_MESSAGES >= 10_000
    corpus = ServiceMessages("exchange", sizes=Sizes(64_000, 0.1, 60_000, 70_000)).encode_corpus(1)
    assert 500 < corpus.count < CORPUS_MESSAGES  # 64 MiB at most


def test_celery_tasks_are_those_of_celery_and_digests_hold(broker: RunningBroker) -> None:
    corpus = Corpus(record_tasks(broker.url, SEED, 20), lead=3)
    with Connection(broker.url, PUBLISH_CHANNEL) as connection:
        connection.declare_queue("celery", durable=True)
        connection.send(bytes(corpus.renew(0, 20, 0, SEED, STAMP, 0)))
        connection.count_ready("celery")
        found = take_all(broker, "celery")
        connection.delete_queue("celery")
        connection.close()

    assert len(found) == 20
    for serial, (_, properties, body) in enumerate(found):
        identity = f"{mixed(serial, SEED):016x}"
        assert properties.headers["id"].endswith(f"{identity[:4]}-{identity[4:]}")
        assert properties.headers["id"] == properties.headers["root_id"]
        assert properties.correlation_id == properties.headers["id"]
        assert properties.content_type == "application/json"
        assert properties.headers["task"].startswith("shop.")
        assert int(body[3:19], 16) == serial
        assert int(body[35:43], 16) == crc32(body[:35], crc32(body[43:]))


def test_a_message_that_was_changed_in_the_queue_is_corrupt(broker: RunningBroker) -> None:
    """What a broker that damages a body would do: the same message, one octet changed."""
    corpus = ServiceMessages("", routing_key="bench-corrupt", count=3).encode_corpus(SEED)
    with Connection(broker.url, CONSUME_CHANNEL) as connection:
        connection.declare_queue("bench-corrupt", durable=False)
        publisher = connect(broker)
        channel = publisher.channel()
        frames = parse_frames(corpus.renew(0, 3, 0, SEED, STAMP, 0))
        for number, body in enumerate(each.payload for each in frames if each.kind == BODY):
            changed = bytearray(body)
            changed[-1] ^= number == 1
            channel.basic_publish("", "bench-corrupt", bytes(changed))
        publisher.close()
        connection.start_consumer("bench-corrupt", 10)
        seen = SeenMessages(1)
        reader = VerifyingReader(
            connection, DeliveryScanner(65_536 * 4, CONSUME_CHANNEL, seen, 0, 0)
        )
        reader.scan()
        reader.acknowledge()
        while reader.scanner.received < 3:
            reader.read()
            reader.acknowledge()
        assert (reader.scanner.corrupt, seen.distinct) == (1, 2)
        connection.delete_queue("bench-corrupt")


def test_a_close_of_the_channel_is_an_error_with_the_brokers_words(broker: RunningBroker) -> None:
    with Connection(broker.url, CONSUME_CHANNEL) as connection:
        scanner = DeliveryScanner(65_536, CONSUME_CHANNEL, SeenMessages(1), 0, 0)
        reader = VerifyingReader(connection, scanner)
        unknown_tag = acknowledge(CONSUME_CHANNEL, 99)
        connection.send(unknown_tag)

        with pytest.raises(UnexpectedFrameError, match="99"):
            reader.read()
