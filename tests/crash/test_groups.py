"""Consumer groups after a stop, a kill and a start: which messages return."""

import random

import pytest
from pamqp.commands import Basic

from amqp_server.control.client import ask
from tests.amqp_client import AmqpClient, Message
from tests.conftest import StartServer
from tests.crash.messages import stop_cleanly
from tests.groups.streams import StreamClients, header_of, offset_of, take
from tests.servers import RunningServer

pytestmark = pytest.mark.crash


def checkpoint(server: RunningServer) -> None:
    """Return when all that was acked so far is in a checkpoint."""
    ask(server.storage_path, "checkpoint")


def all_of(client: AmqpClient, count: int) -> list[Message]:
    return [client.expect_delivery() for _ in range(count)]


def ack_some(client: AmqpClient, messages: list[Message], chance: random.Random) -> set[int]:
    """Ack about half, in any order; return their offsets."""
    some = [message for message in messages if chance.random() < 0.5]
    chance.shuffle(some)
    for message in some:
        client.send(Basic.Ack(message.tag))
    return {offset_of(message) for message in some}


def test_after_a_clean_stop_nothing_acked_returns_and_flags_are_exact(
    server: RunningServer,
) -> None:
    with StreamClients(server, "s") as stream:
        stream.publish(10)
        client = stream.member("g", 6, stream_offset="first")
        messages = take(client, 0, 1, 2, 3, 4, 5)
        for number in (4, 0, 1):
            client.send(Basic.Ack(messages[number].tag))
        take(client, 6, 7, 8)
        client.send(Basic.Nack(messages[3].tag, requeue=True))
        take(client, 3)
        stop_cleanly(server, client)
    server.restart()
    with StreamClients(server, "s") as stream:
        client = stream.member("g", stream_offset="first")
        again = take(client, 2, 3, 5, 6, 7, 8, 9)
        assert [message.redelivered for message in again] == [True] * 6 + [False]
        counts = [header_of(message, "x-delivery-count") for message in again]
        assert counts == [1, 2, 1, 1, 1, 1, None]


def test_after_a_kill_only_messages_acked_since_the_checkpoint_return_marked(
    start_server: StartServer,
) -> None:
    server = start_server("--offset-checkpoint-interval", "0")
    chance = random.Random(7)
    acked: dict[str, set[int]] = {}
    with StreamClients(server, "s") as stream:
        stream.publish(600)
        members = {name: stream.member(name, 1000, stream_offset="first") for name in ("a", "b")}
        messages = {name: all_of(client, 600) for name, client in members.items()}
        for name, client in members.items():
            acked[name] = ack_some(client, messages[name][:300], chance)
            # Answered when the acks have arrived.
            client.call(Basic.Qos(prefetch_count=1000), Basic.QosOk)
        checkpoint(server)
        for name, client in members.items():
            ack_some(client, messages[name][300:], chance)
        server.kill()
    server.restart()
    with StreamClients(server, "s") as stream:
        for name, safe in acked.items():
            client = stream.member(name, 1000, stream_offset="next")
            left = sorted(set(range(600)) - safe)
            assert all(message.redelivered for message in take(client, *left))


def test_a_group_that_began_at_the_end_misses_no_message_after_a_kill(
    server: RunningServer,
) -> None:
    with StreamClients(server, "s") as stream:
        stream.publish(3)
        stream.member("g", stream_offset="next")
        server.kill()
    server.restart()
    with StreamClients(server, "s") as stream:
        stream.publish(2, first=3)
        take(stream.member("g", stream_offset="next"), 3, 4)


def test_over_many_kills_each_group_gets_every_message(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "1s")
    chance = random.Random(11)
    seen: dict[str, set[int]] = {"a": set(), "b": set()}
    for number in range(5):
        with StreamClients(server, "s") as stream:
            stream.publish(200, first=200 * number)
            for name in seen:
                # Two members take turns: the other one gets the deliveries of one that dies.
                for client in [stream.member(name, 20, stream_offset="first") for _ in range(2)]:
                    messages = all_of(client, 20)
                    seen[name] |= {offset_of(message) for message in messages}
                    ack_some(client, messages, chance)
            if number % 2:
                checkpoint(server)
            server.kill()
        server.restart()
    with StreamClients(server, "s") as stream:
        for name in seen:
            client = stream.member(name, 10_000)
            while len(seen[name]) < 1000:
                seen[name].add(offset_of(client.expect_delivery()))
            assert seen[name] == set(range(1000))
