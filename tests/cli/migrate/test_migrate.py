"""`amqp-server migrate` between two brokers of ours."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue
from pamqp.common import FieldTable

from amqp_server.control.client import UnreachableError, ask
from amqp_server.control.import_client import ImportWork
from amqp_server.control.protocol import ControlError
from cli.main import main
from cli.migrate import moves
from tests.amqp_client import AmqpClient, Message, connect
from tests.cli.migrate.conftest import Migrate, address
from tests.management.conftest import ManagementServer
from tests.servers import RunningServer

STREAM = {"x-queue-type": "stream"}
EVERY_PROPERTY: dict[str, Any] = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "headers": {
        "text": "ä",
        "number": -5,
        "long": 2**40,
        "truth": True,
        "nothing": None,
        "list": [1, "two", {"three": 3}],
        "octets": bytearray(b"\x00\xff"),
        "CC": ["other"],
        "x-delivery-count": 7,
        "x-stream-offset": 7,
    },
    "priority": 3,
    "correlation_id": "correlation",
    "reply_to": "answers",
    "expiration": "3600000",
    "message_id": "id",
    "timestamp": datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "message_type": "created",
    "user_id": "guest",
    "app_id": "shop",
}


@pytest.fixture
def there(source: ManagementServer) -> Iterator[AmqpClient]:
    with connect(source.server.address) as client:
        client.open_channel(confirms=True)
        yield client


@pytest.fixture
def here(target: RunningServer) -> Iterator[AmqpClient]:
    with connect(target.address) as client:
        client.open_channel()
        yield client


def publish(client: AmqpClient, queue: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        client.publish(b"%d" % number, queue)
    client.expect_confirmed()


def bodies(client: AmqpClient, queue: str) -> list[int]:
    found = []
    while (message := client.get(queue)) is not None:
        found.append(int(message.body))
    return found


def copied(client: AmqpClient, queue: str, count: int) -> list[Message]:
    client.consume(queue, prefetch=1000, arguments={"x-stream-offset": "first"})
    return [client.expect_delivery() for _ in range(count)]


def as_sent(message: Message) -> tuple[Any, ...]:
    properties = {name: value for name, value in message.properties if name != "headers"}
    return (
        message.method.exchange,
        message.method.routing_key,
        properties,
        message.properties.headers,
        message.body,
    )


def test_messages_move_in_order_and_nothing_is_left(
    migrate: Migrate, there: AmqpClient, here: AmqpClient
) -> None:
    for queue in ("a", "b", "empty"):
        there.declare(queue)
    publish(there, "a", 3000)
    publish(there, "b", 10)
    done = migrate()
    report = done.event("report")
    assert (done.code, report["left"], report["differs"]) == (0, [], [])
    assert report["moved"] == 3010
    assert bodies(here, "a") == list(range(3000))
    assert bodies(here, "b") == list(range(10))
    assert there.ready_count("a") == 0
    publish(there, "a", 5)
    assert migrate().event("report")["moved"] == 5
    assert bodies(here, "a") == list(range(5))


ALL_PROPERTIES = [
    Basic.Properties(delivery_mode=mode, **{name: EVERY_PROPERTY[name] for name in names})
    for mode in (1, 2, None)
    for names in ([], list(EVERY_PROPERTY), *([name] for name in EVERY_PROPERTY))
]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_route_and_properties_stay_and_no_copy_is_routed_again(
    migrate: Migrate, there: AmqpClient, here: AmqpClient, kind: str
) -> None:
    """Each message as published; its header CC named another queue, which got its copy then."""
    for queue in ("q", "other"):
        there.declare(queue, arguments={"x-queue-type": kind})
    there.call(Exchange.Declare(exchange="shop", durable=True), Exchange.DeclareOk)
    there.call(Queue.Bind(queue="q", exchange="shop", routing_key="new"), Queue.BindOk)
    for properties in ALL_PROPERTIES:
        there.publish(b"body", "new", "shop", properties=properties)
    there.publish(b"", "new", "shop", properties=Basic.Properties())
    there.expect_confirmed()
    wanted = [got for _ in ALL_PROPERTIES if (got := there.get("q", no_ack=False)) is not None]
    wanted.append(last := there.get("q", no_ack=False))  # type: ignore[arg-type]
    assert last is not None
    there.send(Basic.Nack(delivery_tag=last.tag, multiple=True, requeue=True))
    assert migrate().code == 0
    for each in wanted:
        got = here.get("q")
        assert got is not None
        if kind == "quorum":
            # The source has given it back, and counts that in the header.
            (each.properties.headers or {}).pop("x-delivery-count", None)
        assert as_sent(got) == as_sent(each)
    assert here.ready_count("q") == here.ready_count("other") == 0


def test_a_stream_is_copied_once_however_often_the_command_runs(
    migrate: Migrate, there: AmqpClient, here: AmqpClient
) -> None:
    there.declare("s", arguments=STREAM)
    for number in range(300):
        headers: FieldTable | None = {"number": number} if number % 2 else None
        properties = Basic.Properties(delivery_mode=2, headers=headers, message_id=f"{number}")
        there.publish(b"%d" % number, "s", properties=properties)
    there.expect_confirmed()
    assert migrate().event("report")["moved"] == 300
    assert migrate().event("report")["moved"] == 0
    publish(there, "s", 50, first=300)
    done = migrate()
    assert (done.code, done.event("report")["moved"]) == (0, 50)
    found = copied(here, "s", 350)
    assert [int(each.body) for each in found] == list(range(350))
    first, second = found[0].properties, found[1].properties
    assert first.headers == {"x-stream-offset": 0}
    assert second.headers == {"number": 1, "x-stream-offset": 1}


def test_a_copied_stream_that_brings_nothing_is_idle(
    migrate: Migrate, there: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is looked at again before the time is over, as with the times of every day.
    monkeypatch.setattr(moves, "LATER_SECONDS", 0.2)
    there.declare("s", arguments=STREAM)
    publish(there, "s", 3)
    done = migrate("--idle", "1s")
    assert (done.code, done.event("report")["moved"]) == (0, 3)


def test_a_dry_run_shows_the_plan_and_changes_nothing(
    migrate: Migrate, target: RunningServer, there: AmqpClient
) -> None:
    there.declare("q")
    there.declare("gone", durable=False)
    publish(there, "q", 7)
    plan = migrate("--dry-run").event("plan")
    (row,) = plan["queues"]
    assert (row["queue"], row["messages"], row["action"]) == ("q", 7, "move")
    assert [each["reason"] for each in plan["stays"]] == ["not durable"]
    assert there.ready_count("q") == 7
    page = ask(target.storage_path, "queues.stats", vhost="", queue="", after="", limit=1)
    assert page["queues"] == []
    text = migrate("--dry-run", as_json=False).out
    assert "dry run: nothing has changed" in text
    assert "stays: not durable" in text


def test_definitions_come_with_users_policies_and_odd_names(
    source: ManagementServer, migrate: Migrate, target: RunningServer
) -> None:
    source.ask("vhosts.add", name="team/ä")
    source.add_user("shop", "management", vhosts=["team/ä"])
    with connect(source.server.address) as client:
        client.open_channel()
        client.declare("in /")
    source.ask(
        "queues.declare",
        vhost="team/ä",
        name="orders\t%2F",
        durable=True,
        auto_delete=False,
        arguments={},
    )
    source.put(
        "/api/policies/%2F/p", {"pattern": ".", "definition": {"max-length": 9}, "priority": 0}
    )
    source.ask(
        "messages.publish",
        vhost="team/ä",
        exchange="",
        routing_key="orders\t%2F",
        properties={"delivery_mode": 2},
        body="MQ==",
    )
    done = migrate("--vhost", "team/ä")
    assert done.event("report")["moved"] == 1
    users = ask(target.storage_path, "users.list")
    assert "shop" in [each["name"] for each in users]
    assert ask(target.storage_path, "policies.list", vhost="") == []
    done = migrate()
    assert (done.code, done.event("report")["differs"]) == (0, [])
    assert [each["name"] for each in ask(target.storage_path, "policies.list", vhost="")] == ["p"]
    page = ask(target.storage_path, "queues.stats", vhost="", queue="", after="", limit=9)
    assert {each["name"]: each["ready"] for each in page["queues"]} == {"in /": 0, "orders\t%2F": 1}


def test_chosen_queues_only(migrate: Migrate, there: AmqpClient, here: AmqpClient) -> None:
    for queue in ("orders", "orders.old", "news"):
        there.declare(queue)
        publish(there, queue, 2)
    assert migrate("--queue", "^orders", "--exclude", "old$").event("report")["moved"] == 2
    assert here.ready_count("orders") == 2
    assert (there.ready_count("orders.old"), there.ready_count("news")) == (2, 2)


def test_a_full_queue_drops_nothing_and_the_rest_stays_at_the_source(
    target: RunningServer, migrate: Migrate, there: AmqpClient
) -> None:
    there.declare("q", arguments={"x-max-length": 5})
    publish(there, "q", 5)
    migrate()
    publish(there, "q", 4, first=5)
    taken: list[int] = []

    def consume_when_full() -> None:
        with connect(target.address) as client:
            client.open_channel()
            taken.extend(bodies(client, "q"))

    later = threading.Timer(1.5, consume_when_full)
    later.start()
    done = migrate()
    later.join()
    assert done.code == 0
    assert any("full here" in each["text"] for each in done.events if each["event"] == "note")
    with connect(target.address) as client:
        client.open_channel()
        assert taken + bodies(client, "q") == list(range(9))
    assert there.ready_count("q") == 0


def test_a_part_that_was_taken_comes_once_although_nobody_heard_of_it(
    migrate: Migrate, there: AmqpClient, here: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.declare("q", arguments={"x-max-length": 5})
    publish(there, "q", 5)
    migrate()
    taken = [here.get("q", no_ack=True) for _ in range(3)]
    publish(there, "q", 4, first=5)
    append = ImportWork.append
    lost: list[object] = []

    def lose_the_first_reply(
        work: ImportWork, messages: Sequence[bytes], start: int, end: int
    ) -> None:
        try:
            append(work, messages, start, end)
        except ControlError as error:
            if lost:
                raise
            lost.append(error.details["taken"])
            taken.extend(here.get("q", no_ack=True) for _ in range(5))
            raise UnreachableError("the server was killed before it answered") from error

    monkeypatch.setattr(ImportWork, "append", lose_the_first_reply)
    assert migrate().code == 0
    assert lost == [3]
    rest = here.get("q", no_ack=True)
    assert [int(each.body) for each in [*taken, rest] if each is not None] == list(range(9))
    assert (here.ready_count("q"), there.ready_count("q")) == (0, 0)


def test_what_stays_is_listed_and_the_exit_code_is_1(
    migrate: Migrate, source: ManagementServer, there: AmqpClient
) -> None:
    there.declare("held")
    there.declare("transient", durable=False)
    there.declare("passing", auto_delete=True)
    there.declare("mine", exclusive=True)
    for queue in ("held", "transient", "passing", "mine"):
        publish(there, queue, 2)
    with connect(source.server.address) as consumer:
        consumer.open_channel()
        consumer.consume("held")
        consumer.expect_delivery()
        consumer.expect_delivery()
        done = migrate()
    left = {each["queue"]: each for each in done.event("report")["left"]}
    assert done.code == 1
    assert (left["held"]["messages"], left["held"]["unacked"]) == (0, 2)
    reasons = {name: row["reason"] for name, row in left.items() if name != "held"}
    assert reasons == {
        "transient": "not durable",
        "passing": "auto-delete",
        "mine": "exclusive",
    }
    assert all(row["messages"] == 2 for name, row in left.items() if name != "held")


def test_definitions_that_differ_here_are_told_and_the_messages_move(
    migrate: Migrate, there: AmqpClient, here: AmqpClient
) -> None:
    there.declare("q", arguments={"x-max-priority": 5})
    here.declare("q")
    publish(there, "q", 2)
    done = migrate()
    report = done.event("report")
    assert (done.code, report["moved"]) == (1, 2)
    assert [each["kind"] for each in report["differs"]] == ["different"]
    assert here.ready_count("q") == 2


def test_a_server_never_moves_to_itself(
    source: ManagementServer, there: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    there.declare("q")
    publish(there, "q", 3)
    options = ("--api", source.url, "--storage-path", str(source.storage_path), "--until-empty")
    assert main(["migrate", "--from", address(source), *options]) == 2
    assert "this server itself" in capsys.readouterr().err
    assert there.ready_count("q") == 3


def test_a_queue_that_expires_is_kept_until_the_command_ends(
    target: RunningServer, migrate: Migrate, there: AmqpClient
) -> None:
    there.declare("q", arguments={"x-expires": 1500})
    there.consume("q")  # so it is in use at the source
    assert migrate("--idle", "3s").code == 0
    page = ask(target.storage_path, "queues.stats", vhost="/", queue="q", after="", limit=1)
    assert [each["name"] for each in page["queues"]] == ["q"]
