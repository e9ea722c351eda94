"""What tests of `amqp-server offsets` share: a stream, members of groups, the command."""

import json
from typing import Any, Final

import pytest
from pamqp.commands import Basic, Channel, Exchange, Queue

from cli.main import main
from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

STREAM: Final = "events"
LOG: Final = ("--queue", STREAM)
WHERE: Final = f"queue '{STREAM}' in vhost '/'"
EXCHANGE: Final = "spread"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be done; return what it writes."""
    code = main(["offsets", *arguments])
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    found = json.loads(run(capsys, *arguments, "--json"))
    assert isinstance(found, list)
    return found


def refuse(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run what must not be done; return the complaint, which must be one line."""
    assert main(["offsets", *arguments]) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("amqp-server: error: ")
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ").rstrip("\n")


def committed(capsys: pytest.CaptureFixture[str], group: str = "g") -> int | None:
    (row,) = rows(capsys, "show", *LOG, "--group", group)
    value = row["committed"]
    assert value is None or isinstance(value, int)
    return value


def commit(capsys: pytest.CaptureFixture[str], to: object, group: str = "g") -> str:
    return run(capsys, "commit", *LOG, "--group", group, "--to", str(to))


def seek(capsys: pytest.CaptureFixture[str], to: object, *more: str, group: str = "g") -> str:
    return run(capsys, "seek", *LOG, "--group", group, "--to", str(to), *more)


def publish(server: RunningServer | ThreadedServer, count: int, first: int = 0) -> None:
    """Publish numbered messages to the stream; return when they are on the disk."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare(STREAM, arguments={"x-queue-type": "stream"})
        for number in range(first, first + count):
            client.publish(b"%d" % number, STREAM)
        client.expect_confirmed()
        client.close()


def member(
    server: RunningServer, group: str, prefetch: int = 100, *, start: str = "next"
) -> AmqpClient:
    """Return a consumer of a group, which begins at `start` if it has no place."""
    client = connect(server.address)
    client.open_channel()
    arguments = {"x-consumer-group": group, "x-stream-offset": start}
    client.consume(STREAM, prefetch=prefetch, arguments=arguments)
    return client


def take(client: AmqpClient, *offsets: int) -> list[Message]:
    """Return the next deliveries, which must be these."""
    messages = [client.expect_delivery() for _ in offsets]
    found = [(message.properties.headers or {})["x-stream-offset"] for message in messages]
    assert found == list(offsets)
    return messages


def expect_nothing(client: AmqpClient) -> None:
    """Check that no delivery is on its way, and that what was sent was taken."""
    client.call(Queue.Declare(queue=STREAM, passive=True), Queue.DeclareOk)


def finish(client: AmqpClient) -> None:
    """Close the channel; return when the group has lost its member."""
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    client.close()


def ack(client: AmqpClient, *messages: Message) -> None:
    """Ack deliveries one by one."""
    for message in messages:
        client.send(Basic.Ack(message.tag))


def make_shards(server: RunningServer, count: int, messages: int = 4) -> None:
    """Make streams behind a consistent-hash exchange, the last one first, with messages in each."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        declare = Exchange.Declare(
            exchange=EXCHANGE, exchange_type="x-consistent-hash", durable=True
        )
        client.call(declare, Exchange.DeclareOk)
        for shard in reversed(range(count)):
            client.declare(f"{EXCHANGE}-{shard}", arguments={"x-queue-type": "stream"})
        for shard in range(count):
            queue = f"{EXCHANGE}-{shard}"
            bind = Queue.Bind(queue=queue, exchange=EXCHANGE, routing_key="1")
            client.call(bind, Queue.BindOk)
        for number in range(messages * count):
            client.publish(b"%d" % number, f"{EXCHANGE}-{number % count}")
        client.expect_confirmed()
        client.close()
