"""Deletions in one turn with declares, publishes and consumers leave nothing half done."""

import gc
import threading
import weakref
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer, two_clients


@contextmanager
def held_loop(server: ThreadedServer) -> Iterator[None]:
    """Let everything that clients send inside the block arrive in one turn of the loop."""
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        may_go.wait(HANG_SECONDS)

    holder = threading.Thread(target=server.call, args=(hold,))
    holder.start()
    assert is_held.wait(HANG_SECONDS)
    try:
        yield
    finally:
        may_go.set()
        holder.join()


def test_two_clients_may_delete_one_queue_in_the_same_turn(tmp_path: Path) -> None:
    with two_clients(tmp_path) as (server, first, second):
        first.declare("q")
        with held_loop(server):
            first.send(Queue.Delete(queue="q"))
            second.send(Queue.Delete(queue="q"))

        first.expect(Queue.DeleteOk)
        second.expect(Queue.DeleteOk)


def test_two_clients_may_delete_one_exchange_in_the_same_turn(tmp_path: Path) -> None:
    with two_clients(tmp_path) as (server, first, second):
        first.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
        with held_loop(server):
            first.send(Exchange.Delete(exchange="x"))
            second.send(Exchange.Delete(exchange="x"))

        first.expect(Exchange.DeleteOk)
        second.expect(Exchange.DeleteOk)


def test_a_deletion_is_answered_when_the_disk_has_it(tmp_path: Path) -> None:
    """Its last consumer left, a client deleted it too and was answered; a crash brought it back."""
    with two_clients(tmp_path) as (server, consumer, client):
        consumer.declare("q", auto_delete=True)
        consumer.consume("q")
        document = tmp_path / "metadata" / "queues" / "%2f" / "q.json"
        assert document.exists()
        definitions = server.server.broker.definitions
        files = definitions._store._files
        remove = files.remove
        begun, asked, may_go = threading.Event(), threading.Event(), threading.Event()

        def remove_slowly(path: Path) -> None:
            begun.set()
            assert may_go.wait(HANG_SECONDS)
            remove(path)

        make_removed = definitions.make_removed

        def ask(kind: str, vhost: str, name: str) -> Awaitable[None] | None:
            asked.set()
            return make_removed(kind, vhost, name)

        server.call(lambda: setattr(files, "remove", remove_slowly))
        server.call(lambda: setattr(definitions, "make_removed", ask))
        consumer.close()
        assert begun.wait(HANG_SECONDS)
        client.send(Queue.Delete(queue="q"))
        assert asked.wait(HANG_SECONDS)
        releasing = threading.Timer(0, may_go.set)
        server.call(releasing.start)
        client.expect(Queue.DeleteOk)
        assert not document.exists()


def test_a_queue_deleted_if_empty_takes_no_message_with_it(tmp_path: Path) -> None:
    """The queue was found empty in one turn and removed in the next: what came between was lost."""
    with (
        ThreadedServer(tmp_path) as server,
        connect(server.address) as client,
        connect(server.address) as publisher,
    ):
        client.open_channel()
        publisher.open_channel(confirms=True)
        client.declare("q")
        with held_loop(server):
            client.send(Queue.Delete(queue="q", if_empty=True))
            publisher.publish(b"kept or returned", "q", mandatory=True)

        _, deleted = client.receive()
        _, published = publisher.receive()
        assert isinstance(deleted, Queue.DeleteOk) == isinstance(published, Basic.Return)


def test_a_queue_declared_again_in_the_turn_of_its_deletion_is_on_the_disk(tmp_path: Path) -> None:
    with two_clients(tmp_path) as (server, first, second):
        first.declare("q")
        with held_loop(server):
            first.send(Queue.Delete(queue="q"))
            second.send(Queue.Declare(queue="q", durable=True))
        first.expect(Queue.DeleteOk)
        second.expect(Queue.DeclareOk)

        is_there = server.call(lambda: "q" in server.server.broker.vhosts["/"].queues)
        assert is_there == (tmp_path / "metadata" / "queues" / "%2f" / "q.json").exists()


def test_an_auto_delete_queue_declared_again_as_its_last_consumer_ends_is_on_the_disk(
    tmp_path: Path,
) -> None:
    with two_clients(tmp_path) as (server, first, second):
        declare = Queue.Declare(queue="q", durable=True, auto_delete=True)
        first.call(declare, Queue.DeclareOk)
        first.consume("q")
        with held_loop(server):
            first.send(Connection.Close(200, "bye", 0, 0), 0)
            second.send(declare)
        second.expect(Queue.DeclareOk)

        is_there = server.call(lambda: "q" in server.server.broker.vhosts["/"].queues)
        server.run(server.server.metadata.close)
        assert is_there == (tmp_path / "metadata" / "queues" / "%2f" / "q.json").exists()


def test_an_exchange_declared_again_in_the_turn_of_its_deletion_is_on_the_disk(
    tmp_path: Path,
) -> None:
    """The removal of the old definition came after the new one and took it along."""
    declare = Exchange.Declare(exchange="x", durable=True)
    with two_clients(tmp_path) as (server, first, second):
        first.call(declare, Exchange.DeclareOk)
        with held_loop(server):
            first.send(Exchange.Delete(exchange="x"))
            second.send(declare)
        first.expect(Exchange.DeleteOk)
        second.expect(Exchange.DeclareOk)

        is_there = server.call(lambda: "x" in server.server.broker.vhosts["/"].exchanges)
        assert is_there == (tmp_path / "metadata" / "exchanges" / "%2f" / "x.json").exists()


def test_dead_letters_that_are_no_longer_in_memory_survive_the_deletion_of_their_queue(
    tmp_path: Path,
) -> None:
    count = 4_000
    with two_clients(tmp_path, ring_size=1024) as (_, publisher, consumer):
        publisher.declare("dead")
        consumer.declare(
            "work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        )
        for number in range(count):
            publisher.publish(str(number).encode(), "work")
        consumer.consume("work")
        for _ in range(count):
            consumer.expect_delivery()
        consumer.send(Basic.Nack(0, multiple=True, requeue=False))
        consumer.send(Queue.Delete(queue="work"))
        publisher.consume("dead", no_ack=True)
        bodies = [publisher.expect_delivery().body for _ in range(count)]
        assert bodies == [str(number).encode() for number in range(count)]


def test_a_consumer_finds_an_auto_delete_queue_whole_or_deleted(
    tmp_path: Path,
) -> None:
    with two_clients(tmp_path) as (server, first, second):
        first.declare("q", auto_delete=True)
        tag = first.call(Basic.Consume(queue="q"), Basic.ConsumeOk).consumer_tag
        with held_loop(server):
            first.send(Basic.Cancel(consumer_tag=tag))
            second.send(Basic.Consume(queue="q"))

        first.expect(Basic.CancelOk)
        _, answer = second.receive()
        if isinstance(answer, Basic.ConsumeOk):
            first.publish(b"still there", "q")
            assert second.expect_delivery().body == b"still there"
        else:
            assert isinstance(answer, Channel.Close)
            assert answer.reply_code == 404


def test_the_name_of_an_auto_delete_queue_is_free_after_its_deletion(
    tmp_path: Path,
) -> None:
    with (
        ThreadedServer(tmp_path) as server,
        connect(server.address) as first,
        connect(server.address) as second,
    ):
        first.open_channel()
        second.open_channel(confirms=True)
        for _ in range(20):
            first.declare("q", auto_delete=True)
            tag = first.call(Basic.Consume(queue="q"), Basic.ConsumeOk).consumer_tag
            first.call(Basic.Cancel(consumer_tag=tag), Basic.CancelOk)
            # Another queue, with other properties: nothing of the old one may follow.
            second.declare("q")
            second.publish(b"mine", "q")
            second.expect_confirmed()
            assert second.ready_count("q") == 1
            second.call(Queue.Delete(queue="q"), Queue.DeleteOk)


@pytest.mark.interpreted("weak references")
def test_a_deleted_queue_keeps_nothing_of_its_messages_in_memory(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-max-priority": 2})
        client.publish(b"m", "q")
        client.expect_confirmed()
        queue = server.server.broker.vhosts["/"].queues["q"]
        gc.disable()
        try:
            order = weakref.ref(queue.ready)
            client.call(Queue.Delete(queue="q"), Queue.DeleteOk)

            assert queue.is_deleted
            assert order() is None, "what the queue knew of its messages waits for a collection"
        finally:
            gc.enable()


def test_publishers_go_on_while_a_queue_with_thousands_of_bindings_is_deleted(
    server: RunningServer,
) -> None:
    bindings = 3_000
    with connect(server.address) as owner, ExitStack() as stack:
        owner.open_channel()
        owner.call(Exchange.Declare(exchange="e", exchange_type="topic"), Exchange.DeclareOk)
        for queue in ("gone", "kept"):
            owner.declare(queue)
        bound = [
            Queue.Bind(queue="gone", exchange="e", routing_key=f"{at}.#") for at in range(bindings)
        ]
        owner.send_raw(b"".join(frame.marshal(bind, 1) for bind in bound))
        for _ in bound:
            owner.expect(Queue.BindOk)
        owner.call(Queue.Bind(queue="kept", exchange="e", routing_key="#"), Queue.BindOk)
        publishers = [stack.enter_context(connect(server.address)) for _ in range(3)]
        for publisher in publishers:
            publisher.open_channel(confirms=True)

        def publish(number: int) -> None:
            publishers[number % 3].publish(b"%d" % number, f"{number % bindings}.x", "e")

        owner.send(Queue.Delete(queue="gone"))
        number = 0
        # At least one for each binding, during the deletion or after it.
        while number < bindings or not wait([owner.socket], 0):
            for _ in range(300):
                publish(number)
                number += 1
            for publisher in publishers:
                publisher.expect_confirmed()
        owner.expect(Queue.DeleteOk)
        owner.consume("kept", no_ack=True)
        found = [int(owner.expect_delivery().body) for _ in range(number)]
        assert owner.ready_count("kept") == 0
        assert sorted(found) == list(range(number))
        # Those of each publisher are in their order.
        for at in range(3):
            assert [each for each in found if each % 3 == at] == list(range(at, number, 3))
