"""Credit that consumers of one channel share: never passed, and given back to all of them."""

from pathlib import Path

from pamqp.commands import Basic

from amqp_server.config import Limits
from tests.amqp_client import PERSISTENT, connect
from tests.threaded_server import ThreadedServer


def test_two_consumers_of_one_queue_do_not_pass_their_channels_prefetch(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path) as server,
        connect(server.address) as client,
        connect(server.address) as publisher,
    ):
        publisher.open_channel(confirms=True)
        publisher.declare("q")
        client.open_channel()
        client.call(Basic.Qos(prefetch_count=10, global_=True), Basic.QosOk)
        client.consume("q")
        client.consume("q")
        # In one turn, so that both are served from what lies there.
        message = publisher.publish_octets(Basic.Publish(routing_key="q"), b"", PERSISTENT)
        publisher.send_raw(message * 12)
        publisher.published[1] += 12
        publisher.expect_confirmed()

        for _ in range(10):
            client.expect_delivery()

        # The next answer, not an eleventh delivery.
        assert client.ready_count("q") == 2


def test_a_channel_that_was_full_serves_its_other_consumers_after_an_ack(tmp_path: Path) -> None:
    """Only the queue of the settled messages used to be asked again."""
    limits = Limits(unacked_messages_per_channel_max=3)
    with (
        ThreadedServer(tmp_path, limits=limits) as server,
        connect(server.address) as client,
        connect(server.address) as publisher,
    ):
        publisher.open_channel(confirms=True)
        publisher.declare("full")
        publisher.declare("waiting")
        client.open_channel()
        client.consume("full")
        client.consume("waiting")
        for _ in range(3):
            publisher.publish(b"fills the channel", "full")
            client.expect_delivery()
        publisher.publish(b"waits for room", "waiting")
        publisher.expect_confirmed()

        client.send(Basic.Ack(delivery_tag=3, multiple=True))

        assert client.expect_delivery().body == b"waits for room"


def test_messages_taken_with_get_use_nothing_of_a_shared_prefetch(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.call(Basic.Qos(prefetch_count=1, global_=True), Basic.QosOk)
        for number in range(5):
            client.publish(b"%d" % number, "q")
        for tag in (1, 2):
            message = client.get("q", no_ack=False)
            assert message is not None
            assert message.tag == tag
        client.consume("q")
        assert client.expect_delivery().tag == 3
        # An answer to what was got makes no room for the consumer; one to its own does.
        client.send(Basic.Ack(delivery_tag=1))
        assert client.ready_count("q") == 2
        client.send(Basic.Ack(delivery_tag=3))
        assert client.expect_delivery().tag == 4
        assert client.ready_count("q") == 1
        client.send(Basic.Ack(delivery_tag=0, multiple=True))
        assert client.expect_delivery().tag == 5
