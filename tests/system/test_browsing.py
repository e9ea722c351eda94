"""x-browse: a consumer reads all messages of a queue and changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.broker.rules.expiry_timer import ExpiryTimer
from amqp_server.control.queue_client import QueueClient
from tests.amqp_client import AmqpClient, Message, connect
from tests.data_directories import chunk_positions, damage, segments_of
from tests.servers import RunningServer
from tests.system.test_retention import do_rounds, fill
from tests.threaded_server import ThreadedServer

RETAINED = {"x-retain-for": 3_600_000}
HOUR_MS = 3_600_000
BROWSE: Any = {"x-browse": True}
Seen = tuple[int, bytes, str]


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    """A client with a publishing channel 1 and a channel 2 to browse on."""
    with connect(server.address) as connected:
        connected.open_channel(1, confirms=True)
        connected.open_channel(2)
        yield connected


def publish(client: AmqpClient, *bodies: bytes, queue: str = "q") -> None:
    for body in bodies:
        client.publish(body, queue)
    client.expect_confirmed()


def taken(client: AmqpClient, *, no_ack: bool = True) -> Message:
    message = client.get("q", no_ack=no_ack)
    assert message is not None
    return message


def seen(message: Message) -> Seen:
    """Return offset, body and state of what a browser got."""
    headers: Any = message.properties.headers
    assert message.redelivered is False
    return headers["x-stream-offset"], message.body, headers["x-browse-state"]


def look(client: AmqpClient, count: int, **options: Any) -> list[Seen]:  # noqa: ANN401
    """Browse on channel 2; return what came."""
    arguments = {**BROWSE, **options.pop("arguments", {})}
    client.consume("q", arguments=arguments, channel=2, **options)
    return [seen(client.expect_delivery(2)) for _ in range(count)]


def test_a_browser_gets_all_messages_in_order_and_then_new_ones(client: AmqpClient) -> None:
    client.declare("q", arguments=RETAINED)
    publish(client, b"a", b"b", b"c")
    taken(client)
    taken(client, no_ack=False)
    assert look(client, 3) == [(0, b"a", "settled"), (1, b"b", "unacked"), (2, b"c", "ready")]
    publish(client, b"d")
    assert seen(client.expect_delivery(2)) == (3, b"d", "ready")


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_browser_changes_nothing_for_consumers(client: AmqpClient, kind: str) -> None:
    client.declare("q", arguments={"x-queue-type": kind, **RETAINED})
    publish(client, b"a", b"b", b"c")
    first = taken(client, no_ack=False)
    client.send(Basic.Reject(first.tag, requeue=True))
    assert len(look(client, 3)) == 3
    for tag, requeue in ((1, True), (2, False)):
        client.send(Basic.Nack(tag, requeue=requeue), 2)
    client.send(Basic.Ack(3), 2)
    client.call(Basic.Recover(requeue=True), Basic.RecoverOk, 2)
    declared = client.call(Queue.Declare(queue="q", passive=True), Queue.DeclareOk, 2)
    assert (declared.message_count, declared.consumer_count) == (3, 0)
    got = [taken(client, no_ack=False) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in got] == [
        (b"a", True),
        (b"b", False),
        (b"c", False),
    ]
    counts = [(each.properties.headers or {}).get("x-delivery-count") for each in got]
    assert counts == ([None] * 3 if kind == "classic" else [1, None, None])


def test_the_acks_of_a_browser_give_credit_and_settle_nothing(client: AmqpClient) -> None:
    client.declare("q")
    publish(client, *(b"%d" % number for number in range(6)))
    assert [offset for offset, _, _ in look(client, 2, prefetch=2)] == [0, 1]
    client.send(Basic.Ack(2, multiple=True), 2)
    assert [seen(client.expect_delivery(2))[0] for _ in range(2)] == [2, 3]
    client.send(Basic.Nack(4, multiple=True, requeue=True), 2)
    # A requeued message is not the browser's: it does not come again.
    assert [seen(client.expect_delivery(2))[0] for _ in range(2)] == [4, 5]
    client.call(Basic.Qos(prefetch_count=2), Basic.QosOk, 2)
    assert client.ready_count("q") == 6


def test_a_browser_may_consume_without_acknowledgements(client: AmqpClient) -> None:
    client.declare("q")
    publish(client, b"a", b"b")
    assert len(look(client, 2, no_ack=True)) == 2
    assert client.ready_count("q") == 2


@pytest.mark.parametrize(
    ("start", "offsets"),
    [("first", [0, 1, 2, 3]), (2, [2, 3]), (-1, [3]), ("last", [3]), ("1h", [0, 1, 2, 3])],
)
def test_a_browser_begins_at_its_offset(
    client: AmqpClient, start: object, offsets: list[int]
) -> None:
    client.declare("q")
    publish(client, b"a", b"b", b"c", b"d")
    found = look(client, len(offsets), arguments={"x-stream-offset": start})
    assert [offset for offset, _, _ in found] == offsets
    publish(client, b"e")
    assert seen(client.expect_delivery(2))[0] == 4


def test_a_browser_may_begin_with_the_next_message(client: AmqpClient) -> None:
    client.declare("q")
    publish(client, b"a")
    look(client, 0, arguments={"x-stream-offset": "next"})
    publish(client, b"b")
    assert seen(client.expect_delivery(2)) == (1, b"b", "ready")


def test_an_exclusive_consumer_and_a_single_active_one_are_not_disturbed(
    client: AmqpClient,
) -> None:
    client.declare("q", arguments={"x-single-active-consumer": True})
    client.declare("alone")
    publish(client, b"a")
    publish(client, b"x", queue="alone")
    assert len(look(client, 1)) == 1
    client.open_channel(3)
    client.consume("q", channel=3)
    assert client.expect_delivery(3).body == b"a"
    client.call(Basic.Consume(queue="alone", exclusive=True), Basic.ConsumeOk, 3)
    assert client.expect_delivery(3).body == b"x"
    client.call(Basic.Consume(queue="alone", arguments=BROWSE), Basic.ConsumeOk, 2)
    assert seen(client.expect_delivery(2)) == (0, b"x", "unacked")


def test_an_exclusive_consumer_may_start_beside_a_browser(client: AmqpClient) -> None:
    client.declare("q")
    look(client, 0)
    client.open_channel(3)
    client.call(Basic.Consume(queue="q", exclusive=True), Basic.ConsumeOk, 3)


def test_a_browser_does_not_prevent_a_deletion_and_is_cancelled(client: AmqpClient) -> None:
    client.declare("q")
    method = Basic.Consume(queue="q", consumer_tag="looking", arguments=BROWSE)
    client.call(method, Basic.ConsumeOk, 2)
    client.send(Queue.Delete(queue="q", if_unused=True))
    assert client.expect(Basic.Cancel, 2).consumer_tag == "looking"
    client.expect(Queue.DeleteOk)


def test_the_end_of_a_browser_deletes_no_auto_delete_queue(client: AmqpClient) -> None:
    client.declare("q", auto_delete=True)
    method = Basic.Consume(queue="q", consumer_tag="looking", arguments=BROWSE)
    client.call(method, Basic.ConsumeOk, 2)
    client.call(Basic.Cancel(consumer_tag="looking"), Basic.CancelOk, 2)
    assert client.ready_count("q") == 0
    client.open_channel(3)
    client.consume("q", channel=3)
    client.call(method, Basic.ConsumeOk, 2)
    tag = client.call(Basic.Consume(queue="q"), Basic.ConsumeOk, 3).consumer_tag
    client.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk, 3)


def test_the_end_of_the_last_consumer_deletes_an_auto_delete_queue_with_a_browser(
    client: AmqpClient,
) -> None:
    client.declare("q", auto_delete=True)
    look(client, 0)
    client.open_channel(3)
    tag = client.call(Basic.Consume(queue="q"), Basic.ConsumeOk, 3).consumer_tag
    client.send(Basic.Cancel(consumer_tag=tag), 3)
    # The answer first, then what follows from it.
    client.expect(Basic.CancelOk, 3)
    client.expect(Basic.Cancel, 2)


def expire(timer: ExpiryTimer) -> None:
    """Let its time be over."""
    timer._end -= HOUR_MS / 1000
    timer.run_turn()


def test_a_browser_does_not_renew_the_expiry_timer(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q", arguments={"x-expires": HOUR_MS})
        timer = server.server.broker.vhosts["/"].queues["q"].expiry_timer
        assert timer is not None
        end = timer._end
        client.consume("q", arguments=BROWSE)
        assert timer._end == end
        server.call(lambda: expire(timer))
        client.expect(Basic.Cancel)
        assert "q" not in server.server.broker.vhosts["/"].queues


def test_messages_expire_and_are_dropped_although_a_browser_reads_them(client: AmqpClient) -> None:
    client.declare("q", arguments={"x-max-length": 2, **RETAINED})
    look(client, 0)
    for offset, body in enumerate((b"a", b"b", b"c")):
        publish(client, body)
        assert seen(client.expect_delivery(2))[:2] == (offset, body)
    assert client.ready_count("q") == 2
    assert taken(client).body == b"b"


def test_a_browser_sees_prioritised_messages_in_the_order_of_the_log(client: AmqpClient) -> None:
    client.declare("q", arguments={"x-max-priority": 5})
    for priority in (0, 5, 2):
        properties = Basic.Properties(delivery_mode=2, priority=priority)
        client.publish(b"%d" % priority, "q", properties=properties)
    client.expect_confirmed()
    assert [body for _, body, _ in look(client, 3)] == [b"0", b"5", b"2"]
    assert taken(client).body == b"5"


def test_a_stream_can_be_browsed_without_prefetch_and_does_not_count(client: AmqpClient) -> None:
    client.declare("q", arguments={"x-queue-type": "stream"})
    publish(client, b"a", b"b")
    assert look(client, 2, no_ack=True) == [(0, b"a", "ready"), (1, b"b", "ready")]
    declared = client.call(Queue.Declare(queue="q", passive=True), Queue.DeclareOk)
    assert declared.consumer_count == 0


@pytest.mark.parametrize("exclusive", [False, True])
def test_transient_queues_are_browsed_from_memory(client: AmqpClient, *, exclusive: bool) -> None:
    client.declare("q", durable=False, exclusive=exclusive)
    publish(client, b"a", b"b")
    taken(client, no_ack=False)
    assert look(client, 2) == [(0, b"a", "unacked"), (1, b"b", "ready")]
    client.publish(b"c", "q")
    assert seen(client.expect_delivery(2)) == (2, b"c", "ready")
    client.expect_confirmed()


def test_messages_that_were_settled_before_they_were_written_are_a_gap(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path, ring_size=1024) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.open_channel(2)
        client.declare("q", durable=False)
        publish(client, *(b"%d" % number for number in range(700)))
        for _ in range(600):
            assert client.get("q") is not None
        publish(client, *(b"%d" % number for number in range(700, 2000)))
        store = server.server.broker.vhosts["/"].queues["q"].store
        server.wait_until(lambda: store.ring.window_start > 600 and not store.is_flushing)
        client.consume("q", arguments=BROWSE, channel=2, no_ack=True)
        offsets = [seen(client.expect_delivery(2))[0]]
        while offsets[-1] < 1999:
            offsets.append(seen(client.expect_delivery(2))[0])
        unsettled = [offset for offset in offsets if offset >= 600]
        assert unsettled == list(range(600, 2000))
        assert offsets == sorted(offsets)


def test_compacted_messages_are_a_gap(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.open_channel(2)
        fill(client, 61, {})
        # The first message stays with its consumer, and pins the log.
        assert client.get("q", no_ack=False) is not None
        for _ in range(40):
            taken(client)
        queue = server.server.broker.vhosts["/"].queues["q"]
        do_rounds(server, 12)
        assert queue.store.log.reclaim.compacted_segments > 0
        # The ring would still have all of them.
        server.call(queue.store.release_memory)
        client.consume("q", arguments=BROWSE, channel=2)
        found = [seen(client.expect_delivery(2))]
        while found[-1][0] < 60:
            found.append(seen(client.expect_delivery(2)))
        unsettled = [offset for offset, _, state in found if state != "settled"]
        assert unsettled == [0, *range(41, 61)]
        assert found == sorted(found)
        assert len(found) < 61
        shown = list(QueueClient(tmp_path).browse("q", body_bytes_max=0))
        assert [row["offset"] for row in shown] == [offset for offset, _, _ in found]


def test_unreadable_messages_are_a_gap(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        for body in (b"a", b"b", b"c"):
            publish(client, body)
    server.terminate()
    (segment,) = segments_of(server.storage_path, "q")
    damage(segment, chunk_positions(segment)[1] + 60)
    server.may_fail = True
    server.restart()
    with connect(server.address) as client:
        client.open_channel(2)
        assert look(client, 2) == [(0, b"a", "ready"), (2, b"c", "ready")]
    assert [row["body"] for row in QueueClient(server.storage_path).browse("q")] == ["a", "c"]


def test_a_backlog_larger_than_memory_is_browsed_whole_after_a_restart(
    server: RunningServer,
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=RETAINED)
        publish(client, *(b"%d" % number for number in range(3000)))
        for _ in range(100):
            taken(client)
    server.terminate()
    server.restart()
    with connect(server.address) as client:
        client.open_channel(2)
        client.consume("q", arguments=BROWSE, channel=2, prefetch=500)
        found: list[Seen] = []
        while len(found) < 3000:
            message = client.expect_delivery(2)
            found.append(seen(message))
            if len(found) % 250 == 0:
                client.send(Basic.Ack(message.tag, multiple=True), 2)
        assert [offset for offset, _, _ in found] == list(range(3000))
        assert [state for _, _, state in found] == ["settled"] * 100 + ["ready"] * 2900
        assert client.ready_count("q", 2) == 2900


@pytest.mark.parametrize("value", [1, "yes", None])
def test_anything_but_true_or_false_is_refused(client: AmqpClient, value: object) -> None:
    client.declare("q")
    arguments: Any = {"x-browse": value}
    client.send(Basic.Consume(queue="q", arguments=arguments), 2)
    close = client.expect_channel_close(406, 2)
    assert close.reply_text.startswith("PRECONDITION_FAILED - invalid arg 'x-browse' for queue 'q'")


def test_an_offset_without_browsing_is_refused_for_a_queue(client: AmqpClient) -> None:
    client.declare("q")
    arguments: Any = {"x-browse": False, "x-stream-offset": "first"}
    client.send(Basic.Consume(queue="q", arguments=arguments), 2)
    close = client.expect_channel_close(406, 2)
    assert "invalid arg 'x-stream-offset'" in close.reply_text


def test_false_is_an_ordinary_consumer(client: AmqpClient) -> None:
    client.declare("q")
    publish(client, b"a")
    client.consume("q", arguments={"x-browse": False}, channel=2)
    assert client.expect_delivery(2).properties.headers in (None, {})
    assert client.ready_count("q") == 0


@pytest.mark.parametrize("start", ["soon", True, []])
def test_an_invalid_offset_is_refused(client: AmqpClient, start: object) -> None:
    client.declare("q")
    arguments: Any = {**BROWSE, "x-stream-offset": start}
    client.send(Basic.Consume(queue="q", arguments=arguments), 2)
    assert "x-stream-offset" in client.expect_channel_close(406, 2).reply_text


def test_an_exclusive_browser_is_refused(client: AmqpClient) -> None:
    client.declare("q")
    client.send(Basic.Consume(queue="q", exclusive=True, arguments=BROWSE), 2)
    close = client.expect_channel_close(406, 2)
    assert close.reply_text.endswith("a consumer that browses cannot be exclusive")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("stream", "x-consumer-group", "g"),
        ("stream", "x-stream-filter", "f"),
        ("classic", "x-priority", 1),
    ],
)
def test_arguments_without_a_meaning_for_browsers_are_refused(
    client: AmqpClient, kind: str, name: str, value: object
) -> None:
    client.declare("q", arguments={"x-queue-type": kind})
    arguments: Any = {**BROWSE, name: value}
    client.send(Basic.Consume(queue="q", arguments=arguments), 2)
    close = client.expect_channel_close(406, 2)
    assert close.reply_text.endswith(f"a consumer that browses cannot have {name}")


def test_the_exclusive_queue_of_another_connection_cannot_be_browsed(
    server: RunningServer, client: AmqpClient
) -> None:
    client.declare("q", exclusive=True)
    with connect(server.address) as other:
        other.open_channel()
        other.send(Basic.Consume(queue="q", arguments=BROWSE))
        other.expect_channel_close(405)


def test_the_consumer_timeout_of_a_queue_does_not_hold_for_browsers(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.open_channel(2)
        client.open_channel(3)
        client.declare("q", arguments={"x-consumer-timeout": 100})
        publish(client, b"a")
        assert len(look(client, 1)) == 1
        client.consume("q", channel=3)
        client.expect_delivery(3)
        # The consumer beside it took longer than it may; the browser did too.
        client.expect_channel_close(406, 3)
        assert client.ready_count("q", 2) == 1


def test_a_browser_that_does_not_read_delays_no_other_client(server: RunningServer) -> None:
    body = bytes(100_000)
    with connect(server.address) as browser, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        browser.open_channel()
        browser.send(Basic.Consume(queue="q", no_ack=True, arguments=BROWSE))
        for _ in range(100):
            client.publish(body, "q")
            client.expect_confirmed()
            assert client.get("q") is not None
        assert client.ready_count("q") == 0
        server.wait_for_memory(300 * 2**20)
