"""A transaction that moves messages between three queues; tests stop the server during it."""

from pamqp.commands import Basic, Channel, Tx

from tests.amqp_client import AmqpClient, connect
from tests.crash.power import Power
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

QUEUES = ("source", "left", "right")
MESSAGES = 5


def serve(power: Power) -> ThreadedServer:
    """Return a server on a file system; it writes checkpoints when a test asks for them."""
    return ThreadedServer(power.root, power, flush_bytes=4096, offset_checkpoint_interval_seconds=0)


def prepare(client: AmqpClient) -> None:
    """Make the queues, with messages in `source`; begin a transaction that moves them.

    It takes two of three messages from `source` and puts `MESSAGES` into `left` and `right`,
    more than one chunk of each.
    """
    client.open_channel(confirms=True)
    for queue in QUEUES:
        client.declare(queue)
    for queue in QUEUES:
        client.publish(b"before", queue)
    client.publish(b"taken", "source")
    client.publish(b"taken too", "source")
    client.expect_confirmed()
    client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
    client.open_channel()
    client.call(Tx.Select(), Tx.SelectOk)
    tags = [getattr(client.get("source", no_ack=False), "tag", 0) for _ in range(3)]
    client.send(Basic.Ack(tags[1]))
    client.send(Basic.Reject(tags[2], requeue=False))
    for number in range(MESSAGES):
        for queue in ("left", "right"):
            client.publish(b"%d" % number * 3000, queue)
    client.call(Channel.Flow(active=True), Channel.FlowOk)


def transactional(server: ThreadedServer) -> AmqpClient:
    """Return a client whose channel 1 is transactional."""
    client = connect(server.address)
    client.open_channel()
    client.call(Tx.Select(), Tx.SelectOk)
    return client


def committed_in_the_journal_only(power: Power) -> None:
    """Commit the transaction of `prepare`, and crash before a log has a byte of it."""
    with serve(power) as server:
        with connect(server.address) as client:
            prepare(client)
            power.sync_gate.clear()
            client.call(Tx.Commit(), Tx.CommitOk)
            assert power.sync_waiting.wait(HANG_SECONDS)
            power.unplug()
        server.abandon()
    power.lose()


def is_there(address: tuple[str, int]) -> bool:
    """Return whether the transaction happened; it must have, or not, in all queues."""
    with connect(address) as client:
        client.open_channel()
        moved = [b"%d" % number * 3000 for number in range(MESSAGES)]
        found = {queue: take_all(client, queue) for queue in QUEUES}
        nothing = {
            "source": [b"before", b"taken", b"taken too"],
            "left": [b"before"],
            "right": [b"before"],
        }
        everything = {
            "source": [b"before"],
            "left": [b"before", *moved],
            "right": [b"before", *moved],
        }
        assert found in (nothing, everything)
        return found == everything


def take_all(client: AmqpClient, queue: str) -> list[bytes]:
    """Return what is in a queue, and leave it there."""
    bodies = []
    while (message := client.get(queue, no_ack=False)) is not None:
        bodies.append(message.body)
    return bodies
