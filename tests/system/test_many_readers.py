"""A thousand consumers read one stream from different offsets in bounded memory."""

from contextlib import ExitStack
from typing import Any

from pamqp.commands import Basic

from amqp_server.broker.storing.window_budget import HELD_BYTES_MAX
from amqp_server.control.client import ask
from tests.amqp_client import PERSISTENT, AmqpClient, AnyPublish, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

MESSAGES = 20_000
BODY_BYTES = 400
CONNECTIONS = 10
CONSUMERS = 100
"""Of each connection."""
EACH = 8
"""Messages that each consumer is to get."""
PREFETCH = 4
GROWTH_BYTES_MAX = 64 * 1024 * 1024
"""What the server may need for all of them: eight times what it does."""


def body_of(number: int) -> bytes:
    return (b"%08d" % number).ljust(BODY_BYTES, b".")


def publish(client: AmqpClient) -> None:
    """Publish numbered messages: one encoding, with the number put in."""
    octets = client.publish_octets(AnyPublish(0, "", "events"), body_of(0), PERSISTENT)
    for start in range(0, MESSAGES, 1_000):
        numbers = range(start, start + 1_000)
        client.send_raw(b"".join(octets.replace(body_of(0), body_of(at)) for at in numbers))
        client.published[1] += len(numbers)
    client.expect_confirmed()


def stats(server: RunningServer) -> dict[str, Any]:
    names = {"vhost": "/", "queue": "events"}
    (found,) = ask(server.storage_path, "queues.stats", **names, after="", limit=1)["queues"]
    assert isinstance(found, dict)
    return found


class Readers:
    """The consumers of one connection, each with a tag that says where it begins."""

    def __init__(self, client: AmqpClient, places: list[int]) -> None:
        self.client = client
        self.missing = dict.fromkeys(places, EACH)
        client.call(Basic.Qos(prefetch_count=PREFETCH), Basic.QosOk)
        for place in places:
            arguments: Any = {"x-stream-offset": place}
            client.send(Basic.Consume(queue="events", consumer_tag=str(place), arguments=arguments))

    def read(self) -> None:
        """Take deliveries until each has what it is to get; acknowledge half of them."""
        while any(self.missing.values()):
            _, value = self.client.receive()
            if isinstance(value, Basic.ConsumeOk):
                continue
            assert isinstance(value, Basic.Deliver), value
            message = self.client.message_of(value)
            place = int(str(value.consumer_tag))
            offset = place + EACH - self.missing[place]
            assert message.body == body_of(offset)
            headers = message.properties.headers
            assert headers is not None
            assert headers["x-stream-offset"] == offset
            self.missing[place] -= 1
            if self.missing[place] >= PREFETCH:
                self.client.send(Basic.Ack(message.tag))


def test_a_thousand_consumers_read_a_stream_from_different_offsets(
    start_server: StartServer,
) -> None:
    """With more segments than may be mapped, and a ring that has only the newest messages."""
    options = ("--ring-size", "1024", "--segment-bytes", "65536", "--flush-bytes", "16384")
    server = start_server(*options)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(server.address)) for _ in range(CONNECTIONS + 1)]
        publisher, *clients = clients
        publisher.open_channel(confirms=True)
        publisher.declare("events", arguments={"x-queue-type": "stream"})
        publish(publisher)
        before_bytes = server.resident_bytes
        step = (MESSAGES - EACH) // (CONNECTIONS * CONSUMERS)
        readers = []
        for number, client in enumerate(clients):
            client.open_channel()
            places = [(at * CONNECTIONS + number) * step for at in range(CONSUMERS)]
            readers.append(Readers(client, places))
        for each in readers:
            each.read()
        found = stats(server)
        assert found["segments"] > 128
        assert found["window_bytes"] <= HELD_BYTES_MAX
        assert 0 < found["windows_read"] < CONNECTIONS * CONSUMERS, "they share what was read"
        server.wait_for_memory(before_bytes + GROWTH_BYTES_MAX)


def test_all_readers_of_a_segment_share_one_mapping(start_server: StartServer) -> None:
    """Nothing is copied for a consumer of its own, and nothing is mapped for it."""
    server = start_server("--ring-size", "1024", "--segment-bytes", "1048576")
    with connect(server.address) as publisher, connect(server.address) as client:
        publisher.open_channel(confirms=True)
        publisher.declare("events", arguments={"x-queue-type": "stream"})
        publish(publisher)
        before = stats(server)
        assert before["segments"] > 5
        assert before["segments_mapped"] == 0
        client.open_channel()
        step = (MESSAGES - EACH) // CONSUMERS
        Readers(client, [at * step for at in range(CONSUMERS)]).read()
        assert 0 < stats(server)["segments_mapped"] < before["segments"], "each that is sealed"
