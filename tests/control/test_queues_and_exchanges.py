"""The commands that declare and delete queues and exchanges do what the methods of AMQP do."""

from pathlib import Path

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import connect
from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

NAMES = ["a/b", "a?b", "a#b", "50%", "%2F", "a b", "é", "<script>alert(1)</script>"]


@pytest.mark.parametrize("name", NAMES)
def test_names_may_have_any_characters(
    threaded_server: ThreadedServer, asking: Asking, name: str
) -> None:
    assert asking.declare(name) == {"created": True, "name": name}
    assert asking.declare(name) == {"created": False, "name": name}
    assert asking.declare_exchange(name) == {"created": True}
    server = threaded_server.server
    assert threaded_server.call(lambda: name in server.broker.vhosts["/"].queues)
    where = {"vhost": "/", "name": name}
    deleted = asking.ask("queues.delete", **where, if_empty=True, if_unused=True)
    assert deleted == {"messages": 0, "existed": True}
    assert asking.ask("exchanges.delete", **where, if_unused=True) == {"existed": True}
    assert asking.ask("exchanges.delete", **where, if_unused=True) == {"existed": False}
    deleted = asking.ask("queues.delete", **where, if_empty=True, if_unused=True)
    assert deleted == {"messages": 0, "existed": False}


def test_what_was_declared_and_deleted_is_so_after_a_restart(tmp_path: Path) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        for name in ("stays", "goes"):
            asking.declare(name, **{"x-queue-type": "quorum"})
            asking.declare_exchange(name)
        asking.ask("queues.delete", vhost="/", name="goes", if_empty=False, if_unused=False)
        asking.ask("exchanges.delete", vhost="/", name="goes", if_unused=False)
    with ThreadedServer(storage_path) as server:
        vhost = server.server.broker.vhosts["/"]
        assert list(server.call(lambda: dict(vhost.queues))) == ["stays"]
        assert "stays" in vhost.exchanges
        assert "goes" not in vhost.exchanges


def test_arguments_have_the_types_that_rabbitmq_gives_them(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    arguments = {"x-max-length": 5, "text": "é", "flag": True, "number": 1.5, "list": [1, {"a": 2}]}
    asking.declare("q", **arguments)
    with connect(threaded_server.address) as client:
        client.open_channel()
        # pamqp sends 5 as a field of 8 bits: the width does not matter.
        client.call(
            Queue.Declare(queue="q", durable=True, arguments={"x-max-length": 5}), Queue.DeclareOk
        )
    found = threaded_server.call(lambda: threaded_server.server.broker.vhosts["/"].queues["q"])
    kinds = {name: value.kind for name, value in found.arguments.items()}
    assert kinds == {
        "x-max-length": b"l",
        "text": b"S",
        "flag": b"t",
        "number": b"d",
        "list": b"A",
    }


def test_refusals_have_the_texts_of_amqp(threaded_server: ThreadedServer, asking: Asking) -> None:
    asking.declare("q", **{"x-max-length": 5})
    asking.declare_exchange("x", "direct")
    flags = {"durable": True, "auto_delete": False, "arguments": {}}
    more = {"type": "topic", "internal": False}
    assert asking.refused_text(406, "queues.declare", vhost="/", name="q", **flags) == (
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q' in vhost '/': "
        "received none but current is the value '5' of type 'long'"
    )
    assert asking.refused_text(403, "queues.declare", vhost="/", name="amq.q", **flags) == (
        "ACCESS_REFUSED - queue name 'amq.q' contains reserved prefix 'amq.*'"
    )
    assert "inequivalent arg 'type'" in asking.refused_text(
        406, "exchanges.declare", vhost="/", name="x", **flags, **more
    )
    assert asking.refused_text(
        406, "exchanges.declare", vhost="/", name="y", **flags, type="nope", internal=False
    ).endswith("exchange type 'nope'")
    predeclared = {"vhost": "/", "name": "amq.direct", "if_unused": False}
    assert asking.refused_text(403, "exchanges.delete", **predeclared) == (
        "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    )
    assert asking.refused_text(404, "queues.purge", vhost="/", name="gone") == (
        "NOT_FOUND - no queue 'gone' in vhost '/'"
    )
    with connect(threaded_server.address) as client:
        client.open_channel(confirms=True)
        client.call(Queue.Declare(queue="mine", exclusive=True), Queue.DeclareOk)
        assert asking.refused_text(405, "queues.purge", vhost="/", name="mine").startswith(
            "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine'"
        )
        client.publish(b"1", "q")
        client.expect(Basic.Ack)
        condition = {"vhost": "/", "name": "q", "if_empty": True, "if_unused": False}
        assert asking.refused_text(406, "queues.delete", **condition) == (
            "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty"
        )
        client.call(Basic.Consume(queue="q"), Basic.ConsumeOk)
        condition = {"vhost": "/", "name": "q", "if_empty": False, "if_unused": True}
        assert asking.refused_text(406, "queues.delete", **condition) == (
            "PRECONDITION_FAILED - queue 'q' in vhost '/' in use"
        )


def test_a_purge_counts_what_it_drops(threaded_server: ThreadedServer, asking: Asking) -> None:
    asking.declare("q")
    with connect(threaded_server.address) as client:
        client.open_channel(confirms=True)
        for _ in range(3):
            client.publish(b"1", "q")
            client.expect(Basic.Ack)
    assert asking.ask("queues.purge", vhost="/", name="q") == {"messages": 3}
    assert asking.ask("queues.purge", vhost="/", name="q") == {"messages": 0}


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("q" * 256, {}, "'name' has 256 bytes"),
        ("q", {"k" * 256: 1}, "longer than 255 bytes"),
        ("q", {"n": 1 << 63}, "more than 64 bits"),
        ("q", {"t": "x" * 70_000}, "at most 65536 are allowed"),
    ],
)
def test_what_amqp_cannot_carry_is_refused(
    asking: Asking, name: str, arguments: dict[str, object], reason: str
) -> None:
    flags = {"durable": True, "auto_delete": False}
    error = asking.refusal("queues.declare", vhost="/", name=name, **flags, arguments=arguments)
    assert error.kind == "invalid_argument"
    assert reason in error.reason


def test_a_server_named_queue_gets_a_name(asking: Asking) -> None:
    made = asking.declare("")
    assert made["created"]
    assert made["name"].startswith("amq.gen-")
