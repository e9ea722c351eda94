"""`amqp-server shards` against a real server, and where messages go."""

import json
from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from amqp_server import pick_shard
from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

HASH = "x-consistent-hash"


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.fixture
def client(server: RunningServer) -> Any:  # noqa: ANN401
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        yield client


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be done; return what it writes."""
    code = main(["shards", *arguments])
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def refuse(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run what must not be done; return the complaint, which must be one line."""
    assert main(["shards", *arguments]) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ").rstrip("\n")


def sets(capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401
    return json.loads(run(capsys, "list", "--json"))


def shards_of_exchange(capsys: pytest.CaptureFixture[str], exchange: str) -> Any:  # noqa: ANN401
    return json.loads(run(capsys, "list", exchange, "--json"))["queues"]


def expect_shards(client: AmqpClient, exchange: str, count: int, keys: int = 40) -> None:
    """Publish under many keys; each message must come to the shard that `pick_shard` names."""
    for number in range(keys):
        key = f"key-{number}"
        client.publish(key.encode(), key, exchange)
        client.expect_confirmed()
        message = client.get(f"{exchange}-{pick_shard(key, count)}", no_ack=True)
        assert message is not None
        assert message.body == key.encode()


def declare_hash_exchange(client: AmqpClient, name: str, arguments: Any = None) -> None:  # noqa: ANN401
    method = Exchange.Declare(
        exchange=name, exchange_type=HASH, durable=True, arguments=arguments or {}
    )
    client.call(method, Exchange.DeclareOk)


def test_created_listed_and_deleted(client: AmqpClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "create", "events", "--shards", "12") == (
        "created exchange 'events' with 12 shards\n"
    )
    expect_shards(client, "events", 12)
    client.publish(b"x", "key", "events")
    client.expect_confirmed()

    assert run(capsys, "list").splitlines() == [
        "SHARDS    MESSAGES  CONSUMERS  TYPE     EXCHANGE",
        "    12           1          0  classic  events in /",
    ]
    lines = run(capsys, "list", "events").splitlines()
    assert len(lines) == 13
    assert lines[0].split() == [
        "SHARD", "MESSAGES", "START", "END", "CONSUMERS", "TYPE", "QUEUE",
    ]  # fmt: skip
    assert [line.split()[-1] for line in lines[1:]] == [f"events-{at}" for at in range(12)]
    assert sum(int(line.split()[1]) for line in lines[1:]) == 1

    deleted = run(capsys, "delete", "events", "--yes")
    assert deleted == "deleted exchange 'events' with 12 shards and 1 messages\n"
    assert sets(capsys) == []
    client.send(Queue.Declare(queue="events-0", passive=True))
    client.expect_channel_close(404)


def test_a_create_that_is_repeated_says_what_was_there(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    create = ("create", "events", "--shards", "300", "--argument", "x-max-length=1000")
    run(capsys, *create)

    assert run(capsys, *create) == "exchange 'events' with 300 shards is there already\n"

    server.kill()
    server.restart()
    assert run(capsys, *create) == "exchange 'events' with 300 shards is there already\n"
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        expect_shards(client, "events", 300)


def test_a_shard_that_is_missing_gets_its_place_again(
    server: RunningServer, client: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "create", "events", "--shards", "8")
    for shard in (0, 3):
        client.call(Queue.Delete(queue=f"events-{shard}"), Queue.DeleteOk)
    client.call(Queue.Unbind(0, "events-6", "events", "1"), Queue.UnbindOk)
    assert [each["is_complete"] for each in sets(capsys)] == [False]
    lines = run(capsys, "list", "events").splitlines()
    assert [line.rpartition("  ")[2] for line in lines[1:]].count("(missing)") == 2
    assert lines[7].endswith("events-6  (not bound)")

    completed = run(capsys, "create", "events", "--shards", "8")

    assert completed == (
        "completed exchange 'events' with 8 shards: 2 queues, 3 bindings were missing\n"
    )
    expect_shards(client, "events", 8)
    server.kill()
    server.restart()
    with connect(server.address) as after:
        after.open_channel(confirms=True)
        expect_shards(after, "events", 8)


def test_what_a_create_left_unfinished_can_be_deleted(
    client: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "create", "events", "--shards", "4")
    client.call(Queue.Delete(queue="events-1"), Queue.DeleteOk)

    run(capsys, "delete", "events", "--yes")

    assert sets(capsys) == []


def test_queues_have_the_type_and_the_arguments_asked_for(
    client: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        capsys, "create", "events", "--shards", "2", "--type", "quorum", "--durability", "write",
        "--argument", "x-max-length=10", "--argument", "x-single-active-consumer=true",
        "--argument", 'x-note="7"',
    )  # fmt: skip

    stats = shards_of_exchange(capsys, "events")[1]["stats"]
    assert (stats["type"], stats["durability"], stats["is_durable"]) == ("quorum", "write", True)
    arguments: Any = {
        "x-queue-type": "quorum",
        "x-max-length": 10,
        "x-single-active-consumer": True,
        "x-durability": "write",
    }
    declare = Queue.Declare(queue="events-1", durable=True, arguments=arguments)
    client.call(declare, Queue.DeclareOk)


def test_streams_can_be_shards(client: AmqpClient, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "create", "events", "--shards", "4", "--type", "stream")
    for number in range(20):
        client.publish(b"x", f"key-{number}", "events")
        client.expect_confirmed()

    rows = shards_of_exchange(capsys, "events")

    assert sum(row["messages"] for row in rows) == 20
    assert [each["types"] for each in sets(capsys)] == [["stream"]]
    refused = refuse(capsys, 1, "delete", "events", "--if-empty", "--yes")
    assert refused == "the shards of exchange 'events' in vhost '/' hold 20 messages"


def test_shards_of_another_vhost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vhosts", "add", "team"]) == 0
    capsys.readouterr()

    run(capsys, "create", "events", "--shards", "2", "--vhost", "team")

    assert [(each["vhost"], each["exchange"]) for each in sets(capsys)] == [("team", "events")]
    assert json.loads(run(capsys, "list", "--vhost", "/", "--json")) == []
    missing = refuse(capsys, 1, "create", "events", "--shards", "2", "--vhost", "none")
    assert missing == "vhost 'none' does not exist"


def clashing_with_exchange_type(client: AmqpClient) -> str:
    client.call(
        Exchange.Declare(exchange="events", exchange_type="topic", durable=True),
        Exchange.DeclareOk,
    )
    return (
        "inequivalent arg 'type' for exchange 'events' in vhost '/': "
        "received ''x-consistent-hash'' but current is 'topic'"
    )


def clashing_with_transient_exchange(client: AmqpClient) -> str:
    client.call(Exchange.Declare(exchange="events", exchange_type=HASH), Exchange.DeclareOk)
    return (
        "inequivalent arg 'durable' for exchange 'events' in vhost '/': "
        "received 'true' but current is 'false'"
    )


def clashing_with_hashed_header(client: AmqpClient) -> str:
    declare_hash_exchange(client, "events", {"hash-header": "customer"})
    return "exchange 'events' hashes a header or property, expected the routing key"


def clashing_with_queue_type(client: AmqpClient) -> str:
    arguments: Any = {"x-queue-type": "quorum"}
    declare = Queue.Declare(queue="events-3", durable=True, arguments=arguments)
    client.call(declare, Queue.DeclareOk)
    return (
        "inequivalent arg 'x-queue-type' for queue 'events-3' in vhost '/': "
        "received none but current is the value 'quorum' of type 'longstr'"
    )


def clashing_with_transient_queue(client: AmqpClient) -> str:
    client.call(Queue.Declare(queue="events-3"), Queue.DeclareOk)
    return (
        "inequivalent arg 'durable' for queue 'events-3' in vhost '/': "
        "received 'true' but current is 'false'"
    )


def clashing_with_exclusive_queue(client: AmqpClient) -> str:
    client.call(Queue.Declare(queue="events-3", exclusive=True), Queue.DeclareOk)
    return (
        "cannot obtain exclusive access to locked queue 'events-3' in vhost '/'. It could be "
        "originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration."
    )


def clashing_with_foreign_binding(client: AmqpClient) -> str:
    declare_hash_exchange(client, "events")
    client.declare("mine")
    client.call(Queue.Bind(0, "mine", "events", "1"), Queue.BindOk)
    return (
        "exchange 'events' has a binding that belongs to none of its 4 shards: "
        "to queue 'mine', key '1'"
    )


def clashing_with_weight(client: AmqpClient) -> str:
    declare_hash_exchange(client, "events")
    client.declare("events-0")
    client.call(Queue.Bind(0, "events-0", "events", "2"), Queue.BindOk)
    return (
        "exchange 'events' has a binding that belongs to none of its 4 shards: "
        "to queue 'events-0', key '2'"
    )


def clashing_with_order(client: AmqpClient) -> str:
    declare_hash_exchange(client, "events")
    for shard in (0, 2, 1, 3):
        client.declare(f"events-{shard}")
        client.call(Queue.Bind(0, f"events-{shard}", "events", "1"), Queue.BindOk)
    return (
        "the bindings of exchange 'events' were not created in the order of its shards: "
        "unbind its queues and run the command again"
    )


def clashing_with_count(client: AmqpClient) -> str:
    declare_hash_exchange(client, "events", {"x-shards": 16})
    return (
        "exchange 'events' has 16 shards, expected 4: "
        "with another count most keys would belong to another shard"
    )


@pytest.mark.parametrize(
    "clash",
    [
        clashing_with_exchange_type,
        clashing_with_transient_exchange,
        clashing_with_hashed_header,
        clashing_with_queue_type,
        clashing_with_transient_queue,
        clashing_with_exclusive_queue,
        clashing_with_foreign_binding,
        clashing_with_weight,
        clashing_with_order,
        clashing_with_count,
    ],
)
def test_a_clash_changes_nothing(
    client: AmqpClient,
    capsys: pytest.CaptureFixture[str],
    clash: Any,  # noqa: ANN401
) -> None:
    expected = clash(client)
    before = definitions(capsys)

    assert refuse(capsys, 1, "create", "events", "--shards", "4") == expected

    assert definitions(capsys) == before


def definitions(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["stats", "--json"]) == 0
    return [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()]


def test_another_count_is_a_clash(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "create", "events", "--shards", "4")

    for count in (3, 5):
        assert refuse(capsys, 1, "create", "events", "--shards", str(count)) == (
            f"exchange 'events' has 4 shards, expected {count}: "
            "with another count most keys would belong to another shard"
        )


def test_shards_that_a_client_made_by_hand_are_shards(
    client: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    declare_hash_exchange(client, "events")
    for shard in range(3):
        client.declare(f"events-{shard}")
        client.call(Queue.Bind(0, f"events-{shard}", "events", "1"), Queue.BindOk)

    assert [each["shards"] for each in sets(capsys)] == [3]
    assert "is there already" in run(capsys, "create", "events", "--shards", "3")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("e", "--shards", "1025"), "shards must be 1 to 1024, found 1025"),
        (("", "--shards", "1"), "an exchange of shards needs a name without line breaks"),
        (("a\nb", "--shards", "1"), "an exchange of shards needs a name without line breaks"),
        (("amq.x", "--shards", "1"), "exchange name 'amq.x' contains reserved prefix 'amq.*'"),
        (
            ("n" * 253, "--shards", "11"),
            f"name '{'n' * 253}-10' has 256 bytes, at most 255 allowed",
        ),
        (
            ("e", "--shards", "2", "--argument", "x-max-length=-1"),
            "invalid arg 'x-max-length' for queue 'e-0' in vhost '/': {value_negative,-1}",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert refuse(capsys, 1, "create", *arguments) == text
    assert sets(capsys) == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--argument", "x"), "'x' is not KEY=VALUE"),
        (("--argument", "=x"), "'=x' is not KEY=VALUE"),
        (("--argument", "x=1", "--argument", "x=2"), "'x' is there twice"),
        (
            ("--type", "quorum", "--argument", "x-queue-type=quorum"),
            "--type and --argument x-queue-type say the same",
        ),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert main(["shards", "create", "e", "--shards", "2", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_what_is_not_there_cannot_be_listed_or_deleted(
    client: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["list", "events"], ["delete", "events", "--yes"]):
        assert refuse(capsys, 1, *command) == "no exchange 'events' in vhost '/'"
    for command in (["list", "amq.direct"], ["delete", "amq.direct", "--yes"]):
        text = "exchange 'amq.direct' in vhost '/' has no shards"
        assert refuse(capsys, 1, *command) == text


def test_shards_with_messages_stay_if_only_empty_ones_may_go(
    client: AmqpClient, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "create", "events", "--shards", "4")
    client.publish(b"x", "key", "events")
    client.expect_confirmed()

    refused = refuse(capsys, 1, "delete", "events", "--if-empty", "--yes")

    assert refused == "the shards of exchange 'events' in vhost '/' hold 1 messages"
    assert client.get(f"events-{pick_shard('key', 4)}", no_ack=True) is not None
    run(capsys, "delete", "events", "--if-empty", "--yes")


def test_nobody_is_asked_where_nobody_can_answer(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "create", "events", "--shards", "2")

    assert main(["shards", "delete", "events"]) == 2

    assert "write --yes to delete" in capsys.readouterr().err
    assert len(sets(capsys)) == 1
