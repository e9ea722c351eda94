"""Consumers of shards: each with its own part, or all of them with one active for each shard.

The patterns of docs/sharding.md, with the clients that it is about.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pika
import pytest
from pamqp.commands import Basic

from amqp_server import pick_shard, shards_of
from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

SHARDS, WORKERS = 8, 3
KEYS = [f"customer-{number}" for number in range(24)]


def make_shards(server: RunningServer, **arguments: Any) -> None:  # noqa: ANN401
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    made = {"exchange": "events", "shards": SHARDS, "vhost": "/", "arguments": named}
    ask(server.storage_path, "shards.create", **made)


def home(shard: int) -> int:
    """Return the worker whose shard it is."""
    return next(w for w in range(WORKERS) if shard in shards_of(w, WORKERS, SHARDS))


def by_key(bodies: list[bytes]) -> dict[str, list[int]]:
    """Return the numbers of each key's messages as they came."""
    seen: dict[str, list[int]] = defaultdict(list)
    for body in bodies:
        key, _, number = body.decode().rpartition(":")
        seen[key].append(int(number))
    return seen


@pytest.mark.interop
def test_workers_with_shards_of_their_own_get_each_key_once_and_in_order(
    server: RunningServer,
) -> None:
    make_shards(server)
    host, port = server.address
    with ExitStack() as open_connections:
        workers: list[tuple[Any, list[bytes]]] = []
        for worker in range(WORKERS):
            connection = open_connections.enter_context(
                pika.BlockingConnection(pika.ConnectionParameters(host, port))
            )
            channel, bodies = connection.channel(), list[bytes]()

            def take(channel: Any, method: Any, _: object, body: bytes, to: Any = bodies) -> None:  # noqa: ANN401
                to.append(body)
                channel.basic_ack(method.delivery_tag)

            channel.basic_qos(prefetch_count=10)
            for shard in shards_of(worker, WORKERS, SHARDS):
                channel.basic_consume(f"events-{shard}", take)
            workers.append((connection, bodies))
        publisher = open_connections.enter_context(
            pika.BlockingConnection(pika.ConnectionParameters(host, port))
        ).channel()
        for number in range(10):
            for key in KEYS:
                publisher.basic_publish("events", key, f"{key}:{number}".encode())

        for worker, (connection, bodies) in enumerate(workers):
            mine = {key for key in KEYS if home(pick_shard(key, SHARDS)) == worker}
            while len(bodies) < 10 * len(mine):
                connection.process_data_events(time_limit=HANG_SECONDS)
            assert by_key(bodies) == {key: list(range(10)) for key in mine}


@pytest.fixture
def workers(server: RunningServer) -> Iterator[list[AmqpClient]]:
    """Consume all shards with every worker: first its own, then those that it is to take over."""
    make_shards(server, x_single_active_consumer=True)
    with ExitStack() as connections:
        clients = [connections.enter_context(connect(server.address)) for _ in range(WORKERS)]
        for worker, client in enumerate(clients):
            client.open_channel()
            for shard in shards_of(worker, WORKERS, SHARDS):
                consume(client, shard, worker)
        for worker, client in enumerate(clients):
            for shard in set(range(SHARDS)) - set(shards_of(worker, WORKERS, SHARDS)):
                consume(client, shard, worker)
        yield clients


def consume(client: AmqpClient, shard: int, worker: int) -> None:
    method = Basic.Consume(
        queue=f"events-{shard}",
        consumer_tag=str(shard),
        arguments={"x-priority": priority(worker, shard)},
    )
    client.call(method, Basic.ConsumeOk)


def priority(worker: int, shard: int) -> int:
    """Return who follows first: another worker for neighbouring shards of one that is gone."""
    return (worker + shard // WORKERS) % WORKERS


def publish(server: RunningServer, numbers: range) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for number in numbers:
            for key in KEYS:
                client.publish(f"{key}:{number}".encode(), key, "events")
        client.expect_confirmed()


def keys_of(shards: set[int]) -> list[str]:
    return [key for key in KEYS if pick_shard(key, SHARDS) in shards]


def taken(client: AmqpClient, count: int) -> list[bytes]:
    """Take deliveries, which must be all, and acknowledge them."""
    messages = [client.expect_delivery() for _ in range(count)]
    if messages:
        client.send(Basic.Ack(messages[-1].tag, multiple=True))
    client.call(Basic.Qos(prefetch_count=0), Basic.QosOk)
    return [message.body for message in messages]


def test_the_shards_of_a_worker_that_dies_move_and_keep_their_order(
    server: RunningServer, workers: list[AmqpClient]
) -> None:
    publish(server, range(4))
    for worker, client in enumerate(workers):
        mine = keys_of(set(shards_of(worker, WORKERS, SHARDS)))
        if worker != 1:
            assert by_key(taken(client, 4 * len(mine))) == {key: [0, 1, 2, 3] for key in mine}
    # Worker 1 has all of its messages, answers some, and is gone without a word.
    moved = set(shards_of(1, WORKERS, SHARDS))
    messages = [workers[1].expect_delivery() for _ in range(4 * len(keys_of(moved)))]
    workers[1].send(Basic.Ack(messages[9].tag, multiple=True))
    workers[1].call(Basic.Qos(prefetch_count=0), Basic.QosOk)
    done = by_key([message.body for message in messages[:10]])
    workers[1].socket.close()

    publish(server, range(4, 6))

    followers = {shard: max((priority(w, shard), w) for w in (0, 2))[1] for shard in moved}
    assert set(followers.values()) == {0, 2}, "not all to one"
    for worker in (0, 2):
        own = keys_of(set(shards_of(worker, WORKERS, SHARDS)))
        taken_over = keys_of({shard for shard in moved if followers[shard] == worker})
        expected = {key: [4, 5] for key in own} | {
            key: list(range(len(done.get(key, ())), 6)) for key in taken_over
        }
        assert by_key(taken(workers[worker], sum(map(len, expected.values())))) == expected
