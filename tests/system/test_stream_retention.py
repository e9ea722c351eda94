"""Retention removes the oldest segments of a stream, by age or size."""

import time
from pathlib import Path
from typing import Any

from pamqp.commands import Basic

from amqp_server.broker.queue import Queue
from amqp_server.broker.stream import Stream
from appendlog.reclaim.leases import HeldLease
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

BODY = bytes(10_000)
SEGMENT_MESSAGES = 6
"""Messages of `BODY` in a segment of 64 KiB."""
HOUR_NS = 3_600 * 10**9


def running(path: Path, **settings: Any) -> ThreadedServer:  # noqa: ANN401
    return ThreadedServer(path, offset_checkpoint_interval_seconds=0, **settings)


def fill(client: AmqpClient, count: int, arguments: dict[str, Any], first: int = 0) -> None:
    """Publish numbered messages one by one: what is written together is in one segment."""
    client.open_channel(9, confirms=True)
    asked = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1, **arguments}
    client.declare("s", arguments=asked, channel=9)
    for number in range(first, first + count):
        client.publish(b"%04d" % number + BODY, "s", channel=9)
        client.expect_confirmed(9)


def stream_of(server: ThreadedServer) -> Queue:
    return server.server.broker.vhosts["/"].queues["s"]


def two_rounds(server: ThreadedServer) -> None:
    """Let a round shorten the stream, and the next one remove what the checkpoint knows of it."""
    for _ in range(2):
        server.run(server.server.checkpointer.write_round)


def expect_numbers(client: AmqpClient, first: int, end: int, channel: int = 1) -> None:
    for number in range(first, end):
        message = client.expect_delivery(channel)
        headers = message.properties.headers
        assert headers is not None
        assert (headers["x-stream-offset"], message.body[:4]) == (number, b"%04d" % number)


def consume_from(client: AmqpClient, start: object, prefetch: int = 1000, channel: int = 1) -> None:
    client.open_channel(channel)
    arguments = {"x-stream-offset": start}
    client.consume("s", prefetch=prefetch, arguments=arguments, channel=channel)


def test_a_stream_keeps_at_most_its_maximum_of_octets(tmp_path: Path) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 60, {"x-max-length-bytes": 250_000})
        log = stream_of(server).store.log
        assert log.size_bytes > 600_000
        two_rounds(server)
        server.wait_until(lambda: log.size_bytes <= 250_000)
        start = log.log_start_offset
        assert start % SEGMENT_MESSAGES == 0
        assert client.ready_count("s", 9) == 60 - start
        consume_from(client, "first")
        expect_numbers(client, start, 60)


def test_a_stream_keeps_messages_until_its_maximum_age(tmp_path: Path) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 20, {"x-max-age": "1h"})
        queue = stream_of(server)
        two_rounds(server)
        assert queue.settlement.ack_floor == 0
        stream = queue
        assert isinstance(stream, Stream)
        server.call(lambda: stream.shorten(time.time_ns() + HOUR_NS - 10**9))
        assert queue.settlement.ack_floor == 0
        server.call(lambda: stream.shorten(time.time_ns() + 2 * HOUR_NS))
        # The last segment stays.
        assert queue.settlement.ack_floor == 18
        two_rounds(server)
        server.wait_until(lambda: queue.store.log.log_start_offset == 18)
        consume_from(client, "first")
        expect_numbers(client, 18, 20)


def test_a_stream_without_limits_keeps_every_message(tmp_path: Path) -> None:
    with (
        running(
            tmp_path, retain_bytes_total=1024, retain_bytes=1024, protect_unconsumed=False
        ) as server,
        connect(server.address) as client,
    ):
        fill(client, 30, {})
        consume_from(client, "first")
        expect_numbers(client, 0, 30)
        two_rounds(server)
        two_rounds(server)
        consume_from(client, "first", channel=2)
        expect_numbers(client, 0, 30, channel=2)


def test_a_consumer_that_retention_overtakes_continues_at_the_new_beginning(tmp_path: Path) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 60, {"x-max-length-bytes": 250_000})
        consume_from(client, "first", prefetch=2)
        expect_numbers(client, 0, 2)
        two_rounds(server)
        start = stream_of(server).settlement.ack_floor
        assert start > 2
        client.send(Basic.Ack(2, True))
        expect_numbers(client, start, start + 2)
        consume_from(client, 3, channel=2)
        expect_numbers(client, start, 60, channel=2)


def test_retention_removes_a_segment_only_below_the_checkpointed_floor(tmp_path: Path) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 60, {"x-max-length-bytes": 250_000})
        queue = stream_of(server)
        server.run(server.server.checkpointer.write_round)
        assert queue.settlement.ack_floor > queue.checkpointed_floor == 0
        assert queue.store.log.log_start_offset == 0
        two_rounds(server)
        assert queue.checkpointed_floor == queue.settlement.ack_floor
        server.wait_until(lambda: queue.store.log.log_start_offset == queue.checkpointed_floor)


def test_a_lease_keeps_the_segments_that_another_process_reads(tmp_path: Path) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 60, {"x-max-length-bytes": 250_000})
        queue = stream_of(server)
        with HeldLease.take(tmp_path, "/", "s", queue.incarnation, 0):
            two_rounds(server)
            two_rounds(server)
            assert queue.store.log.log_start_offset == 0
            assert queue.settlement.ack_floor > 0
        two_rounds(server)
        server.wait_until(lambda: queue.store.log.log_start_offset > 0)


def test_a_restart_keeps_the_log_start_and_the_offsets(tmp_path: Path) -> None:
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 60, {"x-max-length-bytes": 250_000})
        two_rounds(server)
        start = stream_of(server).settlement.ack_floor
    with running(tmp_path) as server, connect(server.address) as client:
        fill(client, 1, {"x-max-length-bytes": 250_000}, first=60)
        assert client.ready_count("s", 9) == 61 - start
        consume_from(client, "first")
        expect_numbers(client, start, 61)
