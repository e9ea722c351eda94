"""While one document of a policy is damaged, nothing happens because of any policy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.base.config import Durability
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.queue import Queue as LiveQueue
from amqp_server.control.client import ask
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.conformance.polling import eventually
from tests.crash.test_flipped_definitions import bind, edit, is_refused, set_body
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

MESSAGES: Final = 20
FIELDS: Final = {"apply_to": "all", "priority": 5}


def set_policy(
    data: Path,
    name: str,
    pattern: str,
    definition: dict[str, Any],
    family: str = "policies",
    **fields: Any,  # noqa: ANN401 - as the command has them
) -> None:
    values = {"vhost": "/", "name": name, "pattern": pattern, "definition": definition}
    ask(data, f"{family}.set", **{**values, **FIELDS, **fields})


def fill(client: AmqpClient, queue: str) -> None:
    for number in range(MESSAGES):
        client.publish(b"%d" % number, queue, properties=PERSISTENT)
        client.expect_confirmed()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with messages in three queues, and policies that would drop them.

    `orders` is the policy that protects the queues, by its priority.
    """
    path = tmp_path_factory.mktemp("whole") / "data"
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        set_policy(path, "orders", "", {"max-length": 1000})
        low = {"max-length": 2, "expires": 1, "message-ttl": 1}
        set_policy(path, "default", "", low, priority=0)
        set_policy(path, "bound", "^bounded$", {"max-length": 900}, "operator_policies")
        client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
        own = {"x-max-length": 5, "x-dead-letter-exchange": "amq.fanout"}
        for name, arguments in (("orders", {}), ("bounded", {}), ("own", own)):
            client.declare(name, arguments=arguments)
            fill(client, name)
    return path


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("control.sock"))
    return path


def document(data: Path, kind: str = "policies", name: str = "orders") -> Path:
    return data / "metadata" / kind / "%2f" / f"{name}.json"


def queue_of(server: ThreadedServer, name: str) -> LiveQueue:
    return server.server.broker.vhosts["/"].queues[name]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def in_place_of_its_directory(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_bytes(b"")


DAMAGE: Final[dict[str, tuple[str, str, Callable[[Path], object]]]] = {
    "flipped": ("policies", "orders", flip),
    "not JSON": ("policies", "orders", lambda path: path.write_bytes(b"{")),
    "an impossible value": (
        "policies",
        "orders",
        lambda path: edit(path, set_body(definition={"max-length": "many"}), is_signed=True),
    ),
    "a flipped pattern": ("policies", "orders", lambda path: edit(path, set_body(pattern="^x$"))),
    "the directory": ("policies", "orders", in_place_of_its_directory),
    "an operator policy": ("operator_policies", "bound", flip),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_no_message_is_dropped_and_no_queue_deleted(
    data: Path, damage: tuple[str, str, Callable[[Path], object]]
) -> None:
    kind, name, change = damage
    path = document(data, kind, name)
    change(path)
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert client.ready_count("orders") == MESSAGES
        assert client.ready_count("bounded") == MESSAGES
        # What the queue was declared with still holds.
        assert client.ready_count("own") == 5
        fill(client, "orders")
        assert client.ready_count("orders") == 2 * MESSAGES
        fill(client, "own")
        assert client.ready_count("own") == 5
        # Also for queues that are declared now.
        client.declare("new")
        fill(client, "new")
        assert client.ready_count("new") == MESSAGES
        assert queue_of(server, "new").expiry_timer is None
        (damaged,) = ask(data, "status")["damaged"]
        assert damaged["vhost"] == "/"
        assert damaged["kind"] == ("policy" if kind == "policies" else "operator policy")
        assert "every queue and exchange of vhost '/'" in damaged["reason"]
        assert ask(data, "probe")["damaged_vhosts"] == ["/"]
        report = json.loads((data / "recovery.json").read_bytes())
        assert report["outcome"] == "unopened"
        (found,) = report["metadata"]["unreadable"]
        assert found["path"].startswith(str(data / "metadata" / kind / "%2f"))
        assert "any queue or exchange of its virtual host" in found["effect"]


def test_setting_it_again_mends_it_and_policies_count_again(data: Path) -> None:
    flip(document(data))
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        set_policy(data, "orders", "^orders$", {"max-length": 7})
        assert eventually(lambda: client.ready_count("orders") == 7)
        assert ask(data, "status")["damaged"] == []
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert client.ready_count("orders") == 7
        assert json.loads((data / "recovery.json").read_bytes())["outcome"] == "clean"


@pytest.mark.parametrize("kind", ["policies", "operator_policies"])
def test_clearing_it_accepts_the_loss(data: Path, kind: str) -> None:
    name = "orders" if kind == "policies" else "bound"
    flip(document(data, kind, name))
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        ask(data, f"{kind}.clear", vhost="/", name=name)
        assert not document(data, kind, name).exists()
        if kind == "policies":
            # Now the policy below it is meant: it deletes the queue.
            server.wait_until(lambda: "orders" not in server.server.broker.vhosts["/"].queues)
        else:
            assert server.call(queue_of(server, "orders").policy.as_json)["policy"] == "orders"
        assert ask(data, "status")["damaged"] == []


def reject(client: AmqpClient, queue: str) -> None:
    got = client.get(queue, no_ack=False)
    assert got is not None
    client.send(Basic.Reject(delivery_tag=got.tag, requeue=False))


@pytest.mark.parametrize("is_dead_lettered", [True, False])
def test_a_rejected_message_waits_until_its_dead_letter_exchange_is_known(
    data: Path, *, is_dead_lettered: bool
) -> None:
    flip(document(data))
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("dead")
        reject(client, "orders")
        queue = queue_of(server, "orders")
        server.wait_until(lambda: queue.forwarder is not None and not queue.forwarder.is_idle)
        assert server.call(lambda: queue.ready_count) == MESSAGES - 1
        assert server.call(lambda: queue.settlement.ack_floor) == 0
        letters = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
        ask(data, "policies.clear", vhost="/", name="default")
        plain = {"max-length": 1000}
        set_policy(data, "orders", "^orders$", letters if is_dead_lettered else plain)
        server.wait_until(lambda: queue.settlement.ack_floor == 1)
        assert client.ready_count("dead") == int(is_dead_lettered)


def test_a_rejected_message_comes_again_after_a_restart(data: Path) -> None:
    flip(document(data))
    for _ in range(2):
        with ThreadedServer(data) as server, connect(server.address) as client:
            client.open_channel(confirms=True)
            assert client.ready_count("orders") == MESSAGES
            reject(client, "orders")
            server.wait_until(lambda: queue_of(server, "orders").ready_count == MESSAGES - 1)


def test_a_queue_with_waiting_dead_letters_can_be_deleted(data: Path) -> None:
    flip(document(data))
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        reject(client, "orders")
        server.wait_until(lambda: queue_of(server, "orders").ready_count == MESSAGES - 1)
        client.call(Queue.Delete(queue="orders"), Queue.DeleteOk)
        assert "orders" not in server.call(lambda: dict(server.server.broker.vhosts["/"].queues))


def test_what_an_exchange_cannot_route_is_refused(data: Path) -> None:
    """A policy may name an alternate exchange: without it the message would be dropped."""
    flip(document(data))
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert is_refused(client, "x")
        # The default exchange has no alternate exchange, and routed messages arrive.
        assert not is_refused(client, "", "nowhere")
        bind(client, "x", "orders")
        assert not is_refused(client, "x")
        alternate: Any = {"alternate-exchange": "amq.fanout"}
        declare = Exchange.Declare(exchange="y", durable=True, arguments=alternate)
        client.call(declare, Exchange.DeclareOk)
        bind(client, "amq.fanout", "orders")
        assert not is_refused(client, "y")
        set_policy(data, "orders", "^orders$", {"max-length": 1000})
        assert not is_refused(client, "x", "another")


def test_the_strongest_durability_and_no_removal_hold(data: Path) -> None:
    flip(document(data))
    with (
        ThreadedServer(data, durability=Durability.NONE) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("weak", arguments={"x-durability": "none", "x-retain-bytes": 7})
        client.declare("s", arguments={"x-queue-type": "stream", "x-max-age": "1h"})
        client.declare("quorum", arguments={"x-queue-type": "quorum"})
        kept = queue_of(server, "orders").storage_settings
        assert kept.durability is Durability.FSYNC
        assert kept.retention.segments_min > 1 << 60
        weak = queue_of(server, "weak").storage_settings
        assert (weak.durability, weak.retention.retain_bytes) == (Durability.NONE, 7)
        # Of streams, a policy counts before the argument.
        assert queue_of(server, "s").storage_settings.stream.max_age_ns is None
        assert queue_of(server, "quorum").settings.delivery_limit is None
        set_policy(data, "orders", "^orders$", {"max-length": 1000})
        assert queue_of(server, "orders").storage_settings.durability is Durability.NONE
        assert queue_of(server, "s").storage_settings.stream.max_age_ns is not None


def test_another_virtual_host_keeps_its_policies(data: Path) -> None:
    flip(document(data))
    with ThreadedServer(data) as server:
        ask(data, "vhosts.add", name="other")
        fields = {"vhost": "other", "pattern": "", **FIELDS}
        ask(data, "policies.set", name="p", definition={"max-length": 1}, **fields)
        with connect(server.address, vhost="other") as client:
            client.open_channel(confirms=True)
            client.declare("q")
            fill(client, "q")
            assert client.ready_count("q") == 1


def test_an_operator_policy_is_another_kind(data: Path) -> None:
    """Clearing a policy of the same name does not accept the loss of the operator's."""
    flip(document(data, "operator_policies", "bound"))
    with ThreadedServer(data) as server:
        policies = server.server.broker.vhosts["/"].policies
        assert policies.is_damaged(PolicyKind.OPERATOR, "bound")
        assert not policies.is_damaged(PolicyKind.USER, "bound")
        assert ask(data, "policies.list", vhost="/") != []


def test_the_disk_alarm_names_the_document(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip(document(data))
    with ThreadedServer(data) as server:
        server.call(lambda: server.server.alarms.force("disk", is_on=True))
        server.wait_until(lambda: server.server.alarms.is_disk_low)
    (line,) = (each.message for each in caplog.records if "disk alarm note" in each.message)
    assert "metadata/policies/%2f/orders.json" in line
    assert "every queue and exchange of vhost '/'" in line
