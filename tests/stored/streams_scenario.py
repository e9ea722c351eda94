"""What the stored directories with streams were filled with, and what must come out of them.

Written once and never changed afterwards, as `scenario`: streams, consumer groups (rounds of
checkpoints of version 3) and shards (bindings with numbers) came after the other directories.
"""

from pathlib import Path
from typing import Any, Final

from pamqp.commands import Basic, Channel, Queue

from amqp_server import pick_shard
from cli.main import main as amqp_server
from tests.amqp_client import AmqpClient, connect

STREAM: Final = {"x-queue-type": "stream", "x-segment-max-bytes": 65_536}
COUNT: Final = 300
WILD: Final = "wild:ö/1"
ACKED: Final = frozenset(range(1, 100, 2))
COMMITTED: Final = 250
SHARDS: Final = 4
KEYS: Final = [f"key {number}" for number in range(40)]


def fill(address: tuple[str, int], storage: Path) -> None:
    """Tell the scenario to an empty server."""
    with connect(address) as client:
        client.open_channel(confirms=True)
        client.declare("events", arguments=STREAM)
        for number in range(COUNT):
            client.publish(_content(number), "events", properties=_properties(number))
        client.expect_confirmed()
        for group, acked in ((WILD, sorted(ACKED, reverse=True)), ("begun", [])):
            tags = {offset: tag for offset, tag, _, _ in _consume(client, group, 100)}
            for offset in acked:
                client.send(Basic.Ack(tags[offset]), 2)
            # As many again come in the place of those that were acknowledged, and go back as well.
            for _ in acked:
                client.expect_delivery(2)
            client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 2)
    where = ["--storage-path", str(storage)]
    commit = ["offsets", "commit", "--queue", "events", "--group", "told", "--to", str(COMMITTED)]
    assert amqp_server([*commit, *where]) == 0
    assert amqp_server(["shards", "create", "sharded", "--shards", str(SHARDS), *where]) == 0


def check(address: tuple[str, int], *, was_clean: bool) -> None:
    """Find all of it again."""
    with connect(address) as client:
        client.open_channel(confirms=True)
        found = _consume(client, None, COUNT)
        assert [offset for offset, *_ in found] == list(range(COUNT))
        assert [content for *_, content in found] == [_content(number) for number in range(COUNT)]
        client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 2)
        left = [offset for offset in range(COUNT) if offset not in ACKED]
        again = {offset for offset in left if offset < 150 or not was_clean}
        _check_group(client, WILD, left, again)
        everything = list(range(COUNT))
        _check_group(client, "begun", everything, set(range(COUNT if not was_clean else 100)))
        _check_group(client, "told", list(range(COMMITTED, COUNT)), None)
        for key in KEYS:
            client.publish(key.encode(), key, "sharded")
        client.expect_confirmed()
        for shard in range(SHARDS):
            expected = [key for key in KEYS if pick_shard(key, SHARDS) == shard]
            declared = client.call(
                Queue.Declare(queue=f"sharded-{shard}", passive=True), Queue.DeclareOk
            )
            assert declared.message_count == len(expected)


def _check_group(
    client: AmqpClient, group: str, offsets: list[int], marked: set[int] | None
) -> None:
    found = _consume(client, group, len(offsets))
    assert [offset for offset, *_ in found] == offsets
    if marked is not None:
        assert {offset for offset, _, redelivered, _ in found if redelivered} == marked
    client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 2)


def _consume(
    client: AmqpClient, group: str | None, count: int
) -> list[tuple[int, int, bool, bytes]]:
    """Begin at the first message, or where the group is; return offset, tag, flag and body."""
    client.open_channel(2)
    arguments: dict[str, Any] = {"x-stream-offset": "first"}
    if group is not None:
        arguments["x-consumer-group"] = group
    client.consume("events", prefetch=count, arguments=arguments, channel=2)
    found = []
    for _ in range(count):
        message = client.expect_delivery(2)
        headers: dict[str, Any] = message.properties.headers or {}
        offset = headers["x-stream-offset"]
        assert headers["x-stream-filter-value"] == f"{offset % 3}"
        found.append((offset, message.tag, message.redelivered, message.body))
    return found


def _content(number: int) -> bytes:
    return b"event %d " % number + bytes(1000)


def _properties(number: int) -> Basic.Properties:
    headers: dict[str, Any] = {"x-stream-filter-value": f"{number % 3}"}
    return Basic.Properties(headers=headers, delivery_mode=number % 2 + 1)
