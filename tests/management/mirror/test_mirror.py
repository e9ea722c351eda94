"""The mirror shows what a real broker holds, at once, and forgets what is gone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.management.broker_client import BrokerAway, BrokerClient
from amqp_server.management.mirror import Mirror
from tests.amqp_client import AmqpClient, AnyDeclare, connect
from tests.management.mirror.conftest import Observed, TurnedTime
from tests.threaded_server import ThreadedServer

if TYPE_CHECKING:
    from amqp_server.management.broker_client import OnProgress


def a_client(observed: Observed, *, confirms: bool = False) -> AmqpClient:
    client = connect(observed.server.address)
    client.open_channel(confirms=confirms)
    return client


async def test_shows_what_an_empty_broker_has(observed: Observed) -> None:
    mirror = observed.mirror
    assert list(mirror.vhosts) == ["/"]
    assert mirror.exchanges["/", "amq.topic"].fields["type"] == "topic"
    assert mirror.exchanges["/", "amq.rabbitmq.trace"].fields["internal"] is True
    assert mirror.queues == {}
    assert mirror.overview.fields["object_totals"] == {
        "connections": 0,
        "channels": 0,
        "exchanges": len(mirror.exchanges),
        "queues": 0,
        "consumers": 0,
    }
    assert mirror.node.fields["mem_used"] > 1_000_000


async def test_shows_a_queue_and_its_messages_at_once(observed: Observed) -> None:
    with a_client(observed, confirms=True) as client:
        client.call(Queue.Declare(queue="q", arguments={"x-max-priority": 3}), Queue.DeclareOk)
        for _ in range(3):
            client.publish(b"hello", "q")
            client.expect_confirmed()
        assert client.get("q", no_ack=False) is not None
        await observed.mirror.refresh()
        fields = observed.mirror.queues["/", "q"].fields
        assert fields["name"] == "q"
        assert fields["type"] == "classic"
        assert fields["arguments"] == {"x-max-priority": 3}
        assert fields["messages"] == 3
        assert fields["messages_ready"] == 2
        assert fields["messages_unacknowledged"] == 1
        assert fields["message_stats"]["publish"] == 3
        assert fields["state"] == "running"
        assert observed.mirror.vhosts["/"].fields["messages"] == 3
        assert observed.mirror.overview.fields["queue_totals"]["messages_ready"] == 2


async def test_shows_connections_channels_and_consumers(observed: Observed) -> None:
    with a_client(observed) as client:
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.call(Basic.Qos(prefetch_count=7), Basic.QosOk)
        client.call(Basic.Consume(queue="q", consumer_tag="c"), Basic.ConsumeOk)
        await observed.mirror.refresh()
        ((name, connection),) = observed.mirror.connections.items()
        assert connection.fields["user"] == "guest"
        assert connection.fields["channels"] == 1
        channel = observed.mirror.channels[f"{name} (1)"]
        assert channel.fields["prefetch_count"] == 7
        assert channel.fields["connection_details"]["peer_host"] == "127.0.0.1"
        consumer = observed.mirror.consumers[f"{name} (1)", "c"]
        assert consumer.fields["queue"] == {"name": "q", "vhost": "/"}
        assert consumer.fields["activity_status"] == "up"
        assert consumer.fields["prefetch_count"] == 7
        assert observed.mirror.queues["/", "q"].fields["consumers"] == 1
    observed.server.wait_until(lambda: not observed.server.connections)
    await observed.mirror.refresh()
    mirror = observed.mirror
    assert not mirror.connections
    assert not mirror.channels
    assert not mirror.consumers


async def test_a_virtual_host_has_its_messages_during_a_refresh_too(observed: Observed) -> None:
    """Requests of others are answered meanwhile."""
    seen: list[int | None] = []

    class LookedThrough(BrokerClient):
        async def call(
            self,
            command: str,
            arguments: Mapping[str, object] | None = None,
            actor: Mapping[str, str] | None = None,
            on_progress: OnProgress | None = None,
        ) -> Any:  # noqa: ANN401 - as in the class
            def take(report: dict[str, Any]) -> None:
                assert on_progress is not None, "a refresh takes reports"
                on_progress(report)
                if report.get("kind") == "vhosts":
                    seen.append(mirror.vhosts["/"].fields.get("messages"))

            return await super().call(command, arguments, actor, take)

    broker = LookedThrough(observed.path)
    mirror = Mirror(broker, observed.time)
    with a_client(observed, confirms=True) as client:
        client.declare("q")
        for _ in range(3):
            client.publish(b"hello", "q")
            client.expect_confirmed()
            await mirror.refresh()
    await broker.close()
    assert seen == [0, 1, 2]


async def test_forgets_a_deleted_queue(observed: Observed) -> None:
    with a_client(observed) as client:
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.publish(b"hello", "q")
        assert client.ready_count("q") == 1
        await observed.mirror.refresh()
        assert observed.mirror.vhosts["/"].fields["messages"] == 1
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        await observed.mirror.refresh()
        assert observed.mirror.queues == {}
        assert observed.mirror.vhosts["/"].fields["messages"] == 0


async def test_a_new_queue_with_the_name_of_a_deleted_one_begins_anew(observed: Observed) -> None:
    with a_client(observed) as client:
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.publish(b"hello", "q")
        assert client.ready_count("q") == 1
        await observed.tick()
        before = observed.mirror.queues["/", "q"]
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk)
        await observed.tick()
        row = observed.mirror.queues["/", "q"]
        assert row is not before
        assert row.fields["durable"] is True
        assert row.fields["messages"] == 0
        assert row.rate("message_stats.publish") == 0


async def test_a_queue_that_lives_between_two_refreshes_leaves_nothing(observed: Observed) -> None:
    with a_client(observed) as client:
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
        client.publish(b"hello", "q")
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        await observed.mirror.refresh()
        assert observed.mirror.queues == {}
        assert observed.mirror.overview.fields["queue_totals"]["messages"] == 0


async def test_names_may_have_any_characters(observed: Observed) -> None:
    name = 'z\u00e9/ %\U0001f407"'
    with a_client(observed) as client:
        client.call(AnyDeclare(queue=name), Queue.DeclareOk)
        await observed.mirror.refresh()
        assert list(observed.mirror.queues) == [("/", name)]


async def test_idle_queues_are_not_told_again(observed: Observed) -> None:
    reported: list[str] = []
    with a_client(observed) as client:
        for number in range(300):
            client.call(Queue.Declare(queue=f"q{number}"), Queue.DeclareOk)
        await observed.mirror.refresh()
        assert len(observed.mirror.queues) == 300
        client.publish(b"hello", "q7")
        assert client.ready_count("q7") == 1

        def note(report: dict[str, object]) -> None:
            rows = report.get("rows")
            if report.get("kind") == "queues" and isinstance(rows, list):
                reported.extend(rows)

        since = observed.mirror._generation
        arguments = {"since": since, "kinds": ["queues"]}
        result = await observed.client.call("management.changes", arguments, on_progress=note)
        assert len(reported) == 1
        reported.clear()
        arguments["since"] = result["generation"]
        await observed.client.call("management.changes", arguments, on_progress=note)
        assert reported == []


async def test_two_readers_see_the_same(observed: Observed) -> None:
    other = Mirror(observed.client, observed.time)
    with a_client(observed) as client:
        for number in range(5):
            client.call(Queue.Declare(queue=f"q{number}"), Queue.DeclareOk)
            await (observed.mirror, other)[number % 2].refresh()
        client.call(Queue.Delete(queue="q0"), Queue.DeleteOk)
        await observed.mirror.refresh()
        await other.refresh()
        assert set(observed.mirror.queues) == {("/", f"q{number}") for number in range(1, 5)}
        assert set(other.queues) == set(observed.mirror.queues)


async def test_a_restarted_broker_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "data"
    client = BrokerClient(path)
    mirror = Mirror(client)
    with ThreadedServer(path) as server:
        with connect(server.address) as user:
            user.open_channel(confirms=True)
            user.call(Queue.Declare(queue="kept", durable=True), Queue.DeclareOk)
            user.call(Queue.Declare(queue="gone"), Queue.DeclareOk)
            user.publish(b"hello", "gone")
            user.expect_confirmed()
        await mirror.refresh()
        assert set(mirror.queues) == {("/", "kept"), ("/", "gone")}
    with pytest.raises(BrokerAway):
        await mirror.refresh()
    with ThreadedServer(path):
        await mirror.refresh()
        assert set(mirror.queues) == {("/", "kept")}
        assert mirror.overview.fields["queue_totals"]["messages"] == 0
        await client.close()


async def test_shows_how_old_the_oldest_message_is(observed: Observed) -> None:
    with a_client(observed) as client:
        client.declare("q", durable=False)
        await observed.tick()
        times = []
        for _ in range(3):
            client.publish(b"hello", "q")
            client.ready_count("q")
            await observed.tick(60)
            times.append(int(observed.time.now_seconds * 1000))
        row = observed.mirror.queues["/", "q"]
        assert row.fields["oldest_message_timestamp"] == times[0]
        for expected in times[1:]:
            assert client.get("q") is not None
            await observed.tick()
            assert row.fields["oldest_message_timestamp"] == expected
        assert client.get("q") is not None
        await observed.tick()
        assert "oldest_message_timestamp" not in row.fields


async def test_shows_the_timestamp_of_the_first_message(observed: Observed) -> None:
    with a_client(observed) as client:
        client.declare("q")
        for second in (1_700_000_000, 1_700_000_001):
            moment = datetime.fromtimestamp(second, UTC)
            properties = Basic.Properties(content_type="text/plain", timestamp=moment)
            client.publish(b"hello", "q", properties=properties)
        client.publish(b"hello", "q")
        for expected in (1_700_000_000, 1_700_000_001, None):
            client.ready_count("q")
            await observed.mirror.refresh()
            fields = observed.mirror.queues["/", "q"].fields
            assert fields.get("head_message_timestamp") == expected
            assert client.get("q") is not None


async def test_shows_whether_consumers_keep_up(observed: Observed) -> None:
    with a_client(observed) as client:
        client.declare("q", durable=False)
        client.consume("q", prefetch=1)
        await observed.tick()
        row = observed.mirror.queues["/", "q"]
        assert row.fields["consumer_utilisation"] == 1
        client.publish(b"hello", "q")
        client.publish(b"hello", "q")
        delivery = client.expect_delivery()
        queue = observed.server.server.broker.vhosts["/"].queues["q"]
        observed.server.wait_until(lambda: queue.consumer_waits.seconds > 0.01)
        observed.time.now_seconds += 0.01
        await observed.mirror.refresh()
        assert row.fields["consumer_utilisation"] < 1
        client.send(Basic.Ack(delivery.tag))
        client.expect_delivery()
        await observed.tick()
        await observed.tick()
        assert not queue.consumer_waits.since_seconds


async def test_shows_the_active_consumer_and_the_owner(observed: Observed) -> None:
    with a_client(observed) as client:
        client.declare("single", durable=False, arguments={"x-single-active-consumer": True})
        for tag in ("first", "second"):
            client.call(Basic.Consume(queue="single", consumer_tag=tag), Basic.ConsumeOk)
        client.declare("own", durable=False, exclusive=True)
        client.call(
            Basic.Consume(queue="own", consumer_tag="alone", exclusive=True), Basic.ConsumeOk
        )
        await observed.mirror.refresh()
        mirror = observed.mirror
        (name,) = mirror.connections
        assert mirror.queues["/", "single"].fields["single_active_consumer_tag"] == "first"
        assert mirror.consumers[f"{name} (1)", "first"].fields["activity_status"] == "single_active"
        assert mirror.consumers[f"{name} (1)", "second"].fields["active"] is False
        own = mirror.queues["/", "own"].fields
        assert own["exclusive"] is True
        assert own["exclusive_consumer_tag"] == "alone"
        assert own["owner_pid_details"]["name"] == name
        assert own["owner_pid_details"]["peer_host"] == "127.0.0.1"
        client.call(Basic.Cancel("first"), Basic.CancelOk)
        await mirror.refresh()
        assert mirror.queues["/", "single"].fields["single_active_consumer_tag"] == "second"
        second = mirror.consumers[f"{name} (1)", "second"].fields
        assert second["activity_status"] == "single_active"


async def test_shows_the_lag_of_groups(observed: Observed) -> None:
    with a_client(observed, confirms=True) as client:
        client.declare("s", arguments={"x-queue-type": "stream"})
        for _ in range(3):
            client.publish(b"hello", "s")
            client.expect_confirmed()
        client.consume(
            "s", prefetch=2, arguments={"x-consumer-group": "g", "x-stream-offset": "first"}
        )
        first = client.expect_delivery()
        client.expect_delivery()
        await observed.mirror.refresh()
        (group,) = observed.mirror.queues["/", "s"].fields["groups"]
        assert (group["group"], group["lag"], group["unacked"]) == ("g", 3, 2)
        client.send(Basic.Ack(first.tag))
        client.expect_delivery()
        await observed.mirror.refresh()
        (group,) = observed.mirror.queues["/", "s"].fields["groups"]
        assert (group["lag"], group["committed"], group["members"]) == (2, 1, 1)


async def test_shows_a_policy_as_soon_as_it_is_set(observed: Observed) -> None:
    with a_client(observed) as client:
        client.declare("q", durable=False)
        await observed.mirror.refresh()
        row = observed.mirror.queues["/", "q"]
        assert row.fields["effective_policy_definition"] == {}
        policy = {
            "vhost": "/",
            "name": "p",
            "pattern": "^q$",
            "apply_to": "all",
            "priority": 0,
            "definition": {"max-length": 5, "alternate-exchange": "amq.fanout"},
        }
        await observed.client.call("policies.set", policy)
        await observed.mirror.refresh()
        assert row.fields["policy"] == "p"
        assert row.fields["effective_policy_definition"]["max-length"] == 5
        await observed.client.call("policies.clear", {"vhost": "/", "name": "p"})
        await observed.mirror.refresh()
        assert "policy" not in row.fields or row.fields["policy"] is None
        assert row.fields["effective_policy_definition"] == {}


async def test_an_idle_queue_shows_since_when(observed: Observed) -> None:
    with a_client(observed) as client:
        client.declare("q", durable=False)
        await observed.tick()
        row = observed.mirror.queues["/", "q"]
        assert "idle_since" not in row.fields
        began = observed.time.now_seconds
        await observed.tick()
        assert datetime.fromisoformat(row.fields["idle_since"]).timestamp() == began
        client.publish(b"hello", "q")
        client.ready_count("q")
        await observed.tick()
        assert "idle_since" not in row.fields


class CostlyClient(BrokerClient):
    """Says of each poll that it took the broker long, as one at many busy queues does."""

    async def call(self, command: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the client's
        result = await super().call(command, *arguments, **options)
        if command == "management.changes":
            result["work_seconds"] = 0.01
        return result


async def test_a_look_after_a_change_of_its_own_does_not_wait_although_looks_are_costly(
    server: ThreadedServer, tmp_path: Path
) -> None:
    client, time = CostlyClient(tmp_path / "data"), TurnedTime()
    mirror = Mirror(client, time)
    queue = {"vhost": "/", "name": "own", "durable": True, "auto_delete": False, "arguments": {}}
    await mirror.refresh()
    await mirror.refresh()
    assert time.waits[-1] > 0
    await client.call("queues.declare", queue)

    mirror.expect_change()
    await mirror.refresh()
    assert time.waits[-1] <= 0
    assert ("/", "own") in mirror.queues
    await client.close()
