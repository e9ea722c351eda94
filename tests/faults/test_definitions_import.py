"""An import of definitions on a disk that fails or loses power in any operation: all or nothing."""

import errno
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest
from pamqp.commands import Queue

from amqp_server.access.permissions import FULL
from amqp_server.base.errors import StartupError
from amqp_server.broker.virtual_host import EVENT_EXCHANGES, PREDECLARED_EXCHANGES
from amqp_server.definitions_file.errors import ImportFailedError
from amqp_server.definitions_file.file_content import FileContent, parse_definitions
from amqp_server.definitions_file.import_report import Outcome
from tests.faults.every_operation import Plan, fail_each_operation
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.faults.inline_server import InlineServer
from tests.faults.power_cuts import STRIDE, cut_operations, leave, own_root
from tests.faults.power_cuts import crashes as crashes_of

pytestmark = [pytest.mark.crash, pytest.mark.long]

DEFINITIONS = {
    "vhosts": [{"name": "/"}, {"name": "new", "description": "the new one"}],
    "users": [{"name": "shop", "password_hash": "", "tags": ["management"]}],
    "permissions": [
        {"user": "shop", "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
        for vhost in ("/", "new")
    ],
    "topic_permissions": [
        {"user": "shop", "vhost": "new", "exchange": "t", "write": "a", "read": "b"}
    ],
    "global_parameters": [{"name": "cluster_name", "value": "shop"}],
    "parameters": [
        {"component": "federation-upstream", "name": "s", "vhost": "/", "value": {"a": 1}}
    ],
    "exchanges": [
        {"name": name, "vhost": vhost, "type": kind, "arguments": {"x-delayed-type": "direct"}}
        for vhost in ("/", "new")
        for name, kind in (("t", "topic"), ("later", "x-delayed-message"))
    ],
    "queues": [
        {"name": f"q{number}", "vhost": vhost, "arguments": {}}
        for vhost in ("/", "new")
        for number in range(6)
    ],
    "bindings": [
        {"source": "t", "vhost": vhost, "destination": f"q{number}", "routing_key": "k"}
        for vhost in ("/", "new")
        for number in range(6)
    ],
}
PREDECLARED = {name for name, _, _ in PREDECLARED_EXCHANGES + EVENT_EXCHANGES}
KEPT = "kept"
"""A queue that was there before."""
GONE = "q3"
"""An imported queue that a client deletes after the import."""


def content() -> FileContent:
    return parse_definitions(orjson.dumps(DEFINITIONS))


@dataclass
class Importing:
    """A server that imports, and a client that deletes a part of it.

    Attributes:
        begun_at: Operation before the import; the large number if it did not begin.
        done_at: Operation after its success; the same.
        deleting_at: Operation before the deletion of `GONE`; the same.
        deleted_at: Operation after its success; the same.
        has_failed: Whether the import was refused.
        found: What the starts have found.
    """

    storage_path: Path
    filesystem: FaultyFileSystem
    seed: int
    begun_at: int = 1 << 30
    done_at: int = 1 << 30
    deleting_at: int = 1 << 30
    deleted_at: int = 1 << 30
    has_failed: bool = False
    found: set[str] = field(default_factory=set)

    def now(self) -> int:
        return len(self.filesystem.operations)


def play(importing: Importing) -> bool:
    """Import, delete a queue at once, stop; return whether the stop was clean."""
    server = InlineServer(importing.storage_path, importing.filesystem, importing.seed)
    try:
        server.__enter__()
    except StartupError:
        return False
    client = server.connect()
    client.call(Queue.Declare(queue=KEPT, durable=True))
    importing.begun_at = importing.now()
    work = server.server.definitions.run(content().entries)
    try:
        report = server.loop.run_until_complete(work)
    except ImportFailedError:
        importing.has_failed = True
        assert set(server.server.broker.vhosts) == {"/"}
        assert set(server.server.broker.vhosts["/"].queues) <= {KEPT}
        # Also of the virtual host that nobody could reach: its queues are stopped and discarded.
        churn = server.server.broker.churn
        kept = len(server.server.broker.vhosts["/"].queues)
        assert churn.queue_created - churn.queue_deleted == kept
    else:
        importing.done_at = importing.now()
        assert report.counts["queues"][Outcome.CREATED] == 12
        importing.deleting_at = importing.now()
        # While the documents are still written to their own files.
        answer = client.call(Queue.Delete(queue=GONE))
        if isinstance(answer, Queue.DeleteOk):
            importing.deleted_at = importing.now()
    return server.stop()


def check(storage_path: Path, importing: Importing, at: int, has_failed: bool) -> None:
    """Start again: everything is there, or nothing."""
    with InlineServer(storage_path) as server:
        broker, access = server.server.broker, server.server.access
        names = set(broker.vhosts["/"].queues) - {KEPT}
        if not names:
            assert at <= importing.done_at or importing.has_failed
            assert set(broker.vhosts) == {"/"}
            assert set(access.users) == {"guest"}
            assert set(broker.vhosts["/"].exchanges) == PREDECLARED
            assert not broker.global_parameters
            assert not broker.vhosts["/"].parameters
            assert broker.vhosts["/"].binding_count == 0
            importing.found.add("nothing")
            return
        importing.found.add("all")
        # A refused import may only come back if the disk refused to take it back.
        assert at > importing.begun_at
        assert not importing.has_failed or has_failed
        every = {f"q{number}" for number in range(6)}
        assert names in (every, every - {GONE})
        if at > importing.deleted_at:
            assert GONE not in names, "a confirmed deletion was undone"
        if at <= importing.deleting_at and not importing.has_failed:
            assert GONE in names
        new = broker.vhosts["new"]
        assert set(new.queues) == every
        assert new.metadata == {"description": "the new one"}
        assert new.binding_count == 6
        assert broker.vhosts["/"].binding_count == len(names)
        for vhost in broker.vhosts.values():
            assert {"t", "later"} < set(vhost.exchanges)
            assert len(vhost.delay_queues) == 1
            assert access.permissions[vhost.name]["shop"] == FULL
        assert access.topics["new"]["shop"]["t"].read == "b"
        assert broker.global_parameters == {"cluster_name": "shop"}
        assert broker.vhosts["/"].parameters == {("federation-upstream", "s"): {"a": 1}}


CUTS_STRIDE = min(STRIDE, 4)
PLAN = Plan(Importing, play, check)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_power_cut_in_any_operation_leaves_all_or_nothing(tmp_path: Path, seed: int) -> None:
    root = tmp_path / "played"
    root.mkdir()
    filesystem = FaultyFileSystem(root)
    filesystem.keep_changes()
    importing = Importing(root / "data", filesystem, seed)
    assert play(importing)
    assert importing.deleted_at < importing.now()
    assert filesystem.changes
    seen = set()
    begin = importing.begun_at
    numbers = cut_operations(filesystem.operations, seed, begin=begin, stride=CUTS_STRIDE)
    for number, outcome, survivors in crashes_of(filesystem.changes, seed, numbers=numbers):
        with own_root(tmp_path / f"{number} {outcome}") as cut:
            leave(survivors, root, cut)
            try:
                check(cut / "data", importing, number, False)
            except BaseException as error:
                error.add_note(f"{number} {filesystem.operations[number]} {outcome}")
                raise
        seen.add(number)
    assert len(seen) > 100 // CUTS_STRIDE
    assert importing.found == {"all", "nothing"}


@pytest.mark.parametrize(
    ("error", "failing_operations"), [(errno.ENOSPC, 1), (errno.EIO, 3), (errno.EIO, None)]
)
def test_an_error_at_any_operation_leaves_all_or_nothing(
    tmp_path: Path, error: int, failing_operations: int | None
) -> None:
    assert fail_each_operation(PLAN, tmp_path, error, failing_operations) > 8
