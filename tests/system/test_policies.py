"""Policies of a whole server: what a restart keeps, how many queues change, what cannot hold it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.base import time_slice
from amqp_server.broker.policies.documents import policy_document
from amqp_server.broker.policies.errors import (
    NoSuchPolicyError,
    NoSuchPolicyVhostError,
    TooManyPoliciesError,
)
from amqp_server.broker.policies.policies import POLICIES_MAX
from amqp_server.broker.policies.policy import PolicyKind
from amqp_server.broker.queue import Queue as LiveQueue
from amqp_server.broker.rules.unloaded_attributes import UnloadedAttributes
from amqp_server.control.client import ask
from amqp_server.recovery.start_report_file import REPORT_NAME
from appendlog import FileSystem
from metadata.errors import MetadataError
from metadata.paths import document_path
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.conformance.polling import eventually
from tests.conformance.queues import take
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

USER, OPERATOR = PolicyKind.USER, PolicyKind.OPERATOR
HOSTILE = "^(a|a)*$"


@contextmanager
def serving(
    path: Path, filesystem: FileSystem | None = None
) -> Iterator[tuple[ThreadedServer, AmqpClient]]:
    with ThreadedServer(path, filesystem) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        yield server, client


def set_policy(
    server: ThreadedServer,
    name: str,
    pattern: str,
    definition: dict[str, Any],
    kind: PolicyKind = USER,
    vhost: str = "/",
    **fields: Any,  # noqa: ANN401 - as the definitions have them
) -> None:
    policies = server.server.policies
    values = {"name": name, "pattern": pattern, "definition": definition}
    values |= {key.replace("_", "-"): value for key, value in fields.items()}

    async def run() -> None:
        await policies.set(vhost, await policies.parse(values, kind), kind)

    server.run(run)


def clear_policy(server: ThreadedServer, name: str, kind: PolicyKind = USER) -> None:
    server.run(lambda: server.server.policies.clear("/", name, kind))


def queue_of(server: ThreadedServer, name: str) -> LiveQueue:
    return server.server.broker.vhosts["/"].queues[name]


def publish(client: AmqpClient, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        client.publish(body, queue, properties=PERSISTENT)
    client.expect_confirmed()


def let_milliseconds_pass() -> None:
    """Return when the time of day, which append times go by, is another one."""
    began_ns = time.time_ns()
    eventually(lambda: time.time_ns() - began_ns > 5_000_000)


# What a restart keeps


def test_a_restart_keeps_policies_and_applies_them_first(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        for name in ("q", "dead"):
            client.declare(name)
        publish(client, "q", b"1", b"2", b"3")
        set_policy(server, "a", "^q$", {"max-length": 2}, priority=7, apply_to="queues")
        set_policy(server, "b", "^q$", {"max-length": 1}, OPERATOR)
        clear_policy(server, "b", OPERATOR)
        set_policy(server, "c", "^q$", {"expires": 3_600_000}, OPERATOR)
    with serving(tmp_path) as (server, client):
        ((vhost, policy),) = server.call(lambda: server.server.policies.list())
        assert policy.as_json(vhost) == {
            "vhost": "/",
            "name": "a",
            "pattern": "^q$",
            "apply-to": "queues",
            "definition": {"max-length": 2},
            "priority": 7,
        }
        queue = queue_of(server, "q")
        assert server.call(queue.policy.as_json) == {
            "policy": "a",
            "operator_policy": "c",
            "effective_policy_definition": {"max-length": 2, "expires": 3_600_000},
        }
        assert queue.expiry_timer is not None
        publish(client, "q", b"4")
        assert client.ready_count("q") == 2


def test_a_predeclared_exchange_has_its_policy_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        client.declare("q")
        client.call(Queue.Bind(queue="q", exchange="amq.fanout"), Queue.BindOk)
        set_policy(server, "x", "^amq\\.direct$", {"alternate-exchange": "amq.fanout"})
    with serving(tmp_path) as (_, client):
        client.publish(b"1", "nowhere", exchange="amq.direct")
        client.expect_confirmed()
        assert client.ready_count("q") == 1


def test_the_audit_log_has_each_change(server: RunningServer) -> None:
    path = server.storage_path
    fields = {"pattern": "^q", "apply_to": "all", "priority": 0, "definition": {"max-length": 2}}
    ask(path, "policies.set", vhost="/", name="p", **fields)
    ask(path, "operator_policies.set", vhost="/", name="o", **fields)
    ask(path, "policies.clear", vhost="/", name="p")
    server.terminate()
    lines = [
        json.loads(line)
        for file in sorted((path / "audit").glob("changes-*"))
        for line in file.read_text().splitlines()
    ]
    found = [each for each in lines if "policy" in each["event"]]
    assert [(each["event"], each["object"]) for each in found] == [
        ("policy.set", "p"),
        ("operator_policy.set", "o"),
        ("policy.cleared", "p"),
    ]
    assert found[0]["details"]["definition"] == {"max-length": 2}
    assert found[0]["user"].startswith("os:")


def test_a_killed_server_has_the_policies_that_were_acknowledged(server: RunningServer) -> None:
    path = server.storage_path
    fields = {"pattern": "^q", "apply_to": "all", "priority": 0, "definition": {"max-length": 2}}
    ask(path, "policies.set", vhost="/", name="p", **fields)
    ask(path, "operator_policies.set", vhost="/", name="o", **fields)
    ask(path, "operator_policies.set", vhost="/", name="gone", **fields)
    ask(path, "operator_policies.clear", vhost="/", name="gone")
    server.kill()
    server.restart()
    assert [each["name"] for each in ask(path, "policies.list", vhost="")] == ["p"]
    assert [each["name"] for each in ask(path, "operator_policies.list", vhost="/")] == ["o"]
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish(client, "q", b"1", b"2", b"3")
        assert client.ready_count("q") == 2


def test_messages_from_before_a_lifetime_outlive_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        client.declare("q")
        publish(client, "q", b"before")
        let_milliseconds_pass()
        # Long enough for what is published within it to be there when the server stops.
        set_policy(server, "p", "^q$", {"message-ttl": 3_600_000})
        let_milliseconds_pass()
        publish(client, "q", b"within")
    with serving(tmp_path) as (server, client):
        queue = queue_of(server, "q")
        server.wait_until(lambda: not queue.loading.is_loading)
        assert server.call(
            lambda: queue.rules is not None and len(queue.rules.attributes.deadlines)
        )
        deadlines = queue.rules.attributes.deadlines if queue.rules else None
        assert deadlines is not None
        ranges = server.call(lambda: deadlines.take_due(1 << 60))
        assert ranges == [(1, 2)]


def test_a_lifetime_holds_since_its_first_day(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, _):
        set_policy(server, "p", "^q$", {"message-ttl": 1000})
        first = server.call(lambda: server.server.policies.get("/", "p").ttl_since_ns)
        set_policy(server, "p", "^q$", {"message-ttl": 1000, "max-length": 5}, priority=3)
        assert server.call(lambda: server.server.policies.get("/", "p").ttl_since_ns) == first
        set_policy(server, "p", "^q$", {"message-ttl": 1001})
        assert server.call(lambda: server.server.policies.get("/", "p").ttl_since_ns) > first > 0


def test_while_a_policy_is_damaged_no_other_one_counts(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        client.declare("q")
        set_policy(server, "p", "^q$", {"max-length": 1})
        set_policy(server, "torn", "^q$", {"max-length": 1})
    path = document_path(tmp_path / "metadata", "policies", "/", "torn")
    path.write_bytes(path.read_bytes()[:-20])
    with serving(tmp_path) as (server, client):
        assert str(path) in (tmp_path / REPORT_NAME).read_text()
        assert [each.name for _, each in server.call(lambda: server.server.policies.list())] == [
            "p"
        ]
        publish(client, "q", b"1", b"2")
        assert client.ready_count("q") == 2
        # Setting it again replaces what is damaged.
        set_policy(server, "torn", "^q$", {"max-length": 3}, priority=5)
        publish(client, "q", b"3", b"4")
        assert client.ready_count("q") == 3
    with serving(tmp_path) as (server, _):
        assert len(server.call(lambda: server.server.policies.list())) == 2


def test_a_policy_with_an_invalid_value_is_damage_too(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, _):
        set_policy(server, "p", "^q$", {"max-length": 1})
        definitions = server.server.broker.definitions
        policy = server.call(lambda: server.server.policies.get("/", "p"))
        policy.definition["max-length"] = -1
        server.run(lambda: definitions.save_policy("/", policy, USER))
    with serving(tmp_path) as (server, _):
        assert server.call(lambda: server.server.policies.list()) == []
        assert "-1 is not a valid maximum length" in (tmp_path / REPORT_NAME).read_text()


def test_a_deleted_virtual_host_takes_its_policies_along(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, _):
        changes = server.server.vhost_changes
        server.run(lambda: changes.create("v"))
        set_policy(server, "p", "", {"max-length": 1}, vhost="v")
        server.run(lambda: changes.delete("v"))
        with pytest.raises(NoSuchPolicyVhostError):
            set_policy(server, "p", "", {"max-length": 1}, vhost="v")
        server.run(lambda: changes.create("v"))
        assert server.call(lambda: server.server.policies.list("v")) == []
    with serving(tmp_path) as (server, _):
        assert sorted(server.server.broker.vhosts) == ["/", "v"]
        assert server.call(lambda: server.server.policies.list()) == []


# What cannot hold the server


def test_many_queues_change_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A slice is over after one step: as many queues as fill slices of 1 ms take seconds to make.
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0)
    with serving(tmp_path) as (server, client):
        for number in range(300):
            client.send(Queue.Declare(queue=f"q{number}", auto_delete=True, nowait=True))
        client.declare("last")
        policies = server.server.policies

        async def change() -> set[int]:
            policy = await policies.parse(
                {"name": "p", "pattern": "^q", "definition": {"max-length": 1}}
            )
            setting = asyncio.ensure_future(policies.set("/", policy))
            queues = list(server.server.broker.vhosts["/"].queues.values())
            changed = set()
            while not setting.done():
                changed.add(sum(each.settings.max_length == 1 for each in queues))
                await asyncio.sleep(0)
            await setting
            return changed

        changed = server.run(change)
        vhost = server.server.broker.vhosts["/"]
        names = server.call(
            lambda: [each.settings.max_length for each in list(vhost.queues.values())[:-1]]
        )
        assert names == [1] * 300
        # Other tasks of the loop had their turns between the slices.
        assert len(changed) > 200


def test_a_hostile_pattern_holds_nothing_for_long(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        long_name = "a" * 200
        for number in range(300):
            client.send(Queue.Declare(queue=f"{long_name}b{number}", auto_delete=True, nowait=True))
        client.declare("q")
        set_policy(server, "bad", HOSTILE, {"max-length": 1}, priority=9)
        set_policy(server, "good", "", {"max-length": 2})
        client.declare(f"{long_name}c")
        assert server.call(lambda: queue_of(server, f"{long_name}c").settings.max_length) == 2
        assert server.call(lambda: queue_of(server, f"{long_name}b0").settings.max_length) == 2


def test_a_virtual_host_has_a_bounded_number_of_policies(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, _):
        policies = server.server.policies

        async def set_many(count: int, prefix: str) -> None:
            parsed = [
                await policies.parse(
                    {"name": f"{prefix}{number}", "pattern": "", "definition": {"max-length": 1}}
                )
                for number in range(count)
            ]
            await policies.set_all("/", parsed)

        server.run(lambda: set_many(POLICIES_MAX, "p"))
        with pytest.raises(TooManyPoliciesError, match=f"limit \\({POLICIES_MAX}\\)"):
            server.run(lambda: set_many(1, "x"))
        server.run(lambda: set_many(1, "p"))
        assert len(server.call(lambda: policies.list())) == POLICIES_MAX


class NoPolicies(FileSystem):
    """A disk that refuses documents of policies while it is told to."""

    is_refusing = False

    def write_file(self, path: Path, content: bytes) -> None:
        self._check(path)
        super().write_file(path, content)

    def rename(self, source: Path, target: Path) -> None:
        self._check(target)
        super().rename(source, target)

    def _check(self, path: Path) -> None:
        if self.is_refusing and "policies" in path.parts:
            raise OSError(5, "Input/output error")


def test_what_the_disk_refuses_is_not_applied(tmp_path: Path) -> None:
    disk = NoPolicies()
    with serving(tmp_path, disk) as (server, client):
        client.declare("q")
        set_policy(server, "old", "^q$", {"max-length": 5})
        disk.is_refusing = True
        with pytest.raises(MetadataError):
            set_policy(server, "old", "^q$", {"max-length": 1})
        with pytest.raises(MetadataError):
            set_policy(server, "new", "^q$", {"max-length": 1}, priority=5)
        disk.is_refusing = False
        publish(client, "q", b"1", b"2")
        assert client.ready_count("q") == 2
    with serving(tmp_path) as (server, _):
        found = server.call(lambda: server.server.policies.list())
        assert [(each.name, each.definition) for _, each in found] == [("old", {"max-length": 5})]


class UnsyncedPolicies(FileSystem):
    """A disk that has written documents of policies, and fails before it says so, once."""

    failures_left = 0

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        if self.failures_left and "policies" in path.parts:
            self.failures_left -= 1
            raise OSError(5, "Input/output error")


def test_a_refused_policy_does_not_come_with_the_next_start(tmp_path: Path) -> None:
    """Its document may be on the disk when the disk refuses it."""
    disk = UnsyncedPolicies()
    with serving(tmp_path, disk) as (server, client):
        client.declare("q")
        set_policy(server, "old", "^q$", {"max-length": 5})
        for name in ("new", "old"):
            disk.failures_left = 1
            with pytest.raises(MetadataError):
                set_policy(server, name, "^q$", {"max-length": 1}, priority=5)
    with serving(tmp_path) as (server, _):
        found = server.call(lambda: server.server.policies.list())
        assert [(each.name, each.definition) for _, each in found] == [("old", {"max-length": 5})]


def test_a_policy_whose_clearing_was_refused_is_there_after_the_next_start(tmp_path: Path) -> None:
    disk = UnsyncedPolicies()
    with serving(tmp_path, disk) as (server, _):
        set_policy(server, "p", "^q$", {"max-length": 5})
        disk.failures_left = 1
        with pytest.raises(MetadataError):
            clear_policy(server, "p")
        assert len(server.call(lambda: server.server.policies.list())) == 1
    with serving(tmp_path) as (server, _):
        assert len(server.call(lambda: server.server.policies.list())) == 1


# Details of effects


def test_a_queue_that_is_still_loading_gets_its_policy_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path) as (_, client):
        client.declare("q", arguments={"x-max-priority": 3})
        publish(client, "q", b"1", b"2", b"3")
    may_load = threading.Event()
    read_some = UnloadedAttributes.read_some

    def read_later(unread: UnloadedAttributes) -> bool:
        assert may_load.wait(60)
        return read_some(unread)

    monkeypatch.setattr(UnloadedAttributes, "read_some", read_later)
    with serving(tmp_path) as (server, client):
        try:
            # The last of several changes counts, whichever of them waits.
            set_policy(server, "p", "^q$", {"max-length-bytes": 2})
            set_policy(server, "p", "^q$", {"max-length-bytes": 1})
            queue = queue_of(server, "q")
            assert server.call(lambda: queue.loading.is_loading)
            assert server.call(lambda: queue.settings.max_length_bytes) is None
            assert client.ready_count("q") == 3
        finally:
            may_load.set()
        server.wait_until(lambda: queue.settings.max_length_bytes == 1)
        assert eventually(lambda: client.ready_count("q") == 1)
        # It is no special case any more.
        set_policy(server, "p", "^q$", {"max-length-bytes": 0})
        assert client.ready_count("q") == 0


def test_retention_and_durability_of_a_live_queue_follow(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        client.declare("q")
        client.declare("own", arguments={"x-retain-bytes": 7})
        definition = {
            "durability": "none",
            "compression": "zstd",
            "retain-bytes": 5,
            "segment-max-bytes": 65536,
        }
        set_policy(server, "p", "", definition)
        kept = queue_of(server, "q").storage_settings
        assert (kept.durability, kept.compression) == ("none", "zstd")
        assert (kept.retention.retain_bytes, kept.segment_bytes) == (5, 65536)
        assert queue_of(server, "own").storage_settings.retention.retain_bytes == 7
        publish(client, "q", b"x")
        clear_policy(server, "p")
        plain = queue_of(server, "q").storage_settings
        assert plain == server.server.broker.storage.settings({})
        publish(client, "q", b"y")
        assert take(client, "q").body == b"x"


def test_bounds_of_a_stream_follow(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        client.declare("s", arguments={"x-queue-type": "stream", "x-max-age": "1h"})
        set_policy(server, "p", "^s$", {"max-age": "2D", "max-length-bytes": 77})
        bounds = queue_of(server, "s").storage_settings.stream
        assert (bounds.max_age_ns, bounds.max_bytes) == (2 * 86_400 * 10**9, 77)
        # A stream cannot have this key, so the policy leaves it alone.
        set_policy(server, "p", "^s$", {"max-age": "3D", "max-length": 5})
        assert queue_of(server, "s").storage_settings.stream.max_age_ns == 3600 * 10**9


def test_new_queues_and_exchanges_have_their_policy_from_the_start(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        set_policy(server, "p", "^q", {"max-length": 1, "durability": "none"})
        set_policy(server, "x", "^amq\\.direct$", {"alternate-exchange": "amq.fanout"})
        client.declare("q")
        client.call(Queue.Bind(queue="q", exchange="amq.fanout"), Queue.BindOk)
        client.publish(b"1", "nowhere", exchange="amq.direct")
        client.expect_confirmed()
        assert client.ready_count("q") == 1
        assert queue_of(server, "q").storage_settings.durability == "none"
        # A redeclare compares arguments only.
        client.declare("q")
        clear_policy(server, "x")
        client.publish(b"2", "nowhere", exchange="amq.direct", mandatory=True)
        client.expect_return()
        client.expect(Basic.Ack)


def test_the_statistics_of_a_queue_show_its_policies(server: RunningServer) -> None:
    path = server.storage_path
    fields = {"pattern": "^q", "apply_to": "all", "priority": 0}
    ask(path, "policies.set", vhost="/", name="p", definition={"max-length": 5}, **fields)
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.declare("other")
        rows = ask(path, "queues.stats", vhost="/", queue="", after="", limit=10)["queues"]
        shown = {
            row["name"]: (
                row["policy"],
                row["operator_policy"],
                row["effective_policy_definition"],
            )
            for row in rows
        }
    assert shown == {"other": (None, None, {}), "q": ("p", None, {"max-length": 5})}


def test_policies_that_others_have_saved_are_taken_and_applied(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, client):
        client.declare("q")
        publish(client, "q", b"1", b"2", b"3")
        policies = server.server.policies

        async def take() -> None:
            for number in range(3):
                fields = {"pattern": "^q$", "definition": {"max-length": number + 1}}
                values = {"name": f"p{number}", "priority": -number, **fields}
                policy = policies.dated("/", await policies.parse(values))
                await server.server.metadata.put(policy_document("/", policy, USER))
                policies.take_saved("/", [policy])

        server.run(take)
        assert eventually(lambda: client.ready_count("q") == 1)
        server.run(policies.until_done)
    with serving(tmp_path) as (server, _):
        assert len(server.call(lambda: server.server.policies.list())) == 3


def test_a_missing_policy_cannot_be_cleared(tmp_path: Path) -> None:
    with serving(tmp_path) as (server, _), pytest.raises(NoSuchPolicyError, match="'x'"):
        clear_policy(server, "x")


def test_what_a_shorter_maximum_trims_from_a_quorum_queue_becomes_dead_letters_oldest_first(
    tmp_path: Path,
) -> None:
    """RabbitMQ 3.10 sends the newest first."""
    bodies = [b"%d" % number for number in range(1_000)]
    with serving(tmp_path) as (server, client):
        client.declare("dead")
        client.declare("q", arguments={"x-queue-type": "quorum"})
        for body in bodies:
            client.publish(body, "q")
        client.expect_confirmed()
        to_dead = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
        set_policy(server, "p", "^q$", {"max-length": 100, **to_dead})
        for queue, expected in (("dead", bodies[:900]), ("q", bodies[900:])):
            client.consume(queue, no_ack=True)
            assert [client.expect_delivery().body for _ in expected] == expected
