"""A deletion on a disk that fails at any operation is complete, or did not happen.

After any of that no start may take what a deletion left for damage, or damage for a deletion.
"""

import errno
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.base import time_slice
from amqp_server.base.errors import StartupError
from amqp_server.broker import broker as broker_module
from amqp_server.broker import deletion as deletion_module
from amqp_server.broker.inner_client import inner_channel
from amqp_server.operations.applied import Applied
from amqp_server.operations.queue_declaring import declare_queue
from amqp_server.protocol.methods import QueueDeclare
from appendlog.files.filesystem import FILE_MODE
from metadata.errors import MetadataError
from metadata.names import encode_name
from tests.amqp_client import PERSISTENT
from tests.faults.checker import Warnings
from tests.faults.disk import Disk
from tests.faults.faulty_filesystem import Change, FaultyFileSystem
from tests.faults.inline_server import InlineClient, InlineServer
from tests.faults.power_cuts import crashes, leave, own_root
from tests.sampled import TAKES_ALL, some_of_each_kind

pytestmark = [pytest.mark.crash, pytest.mark.long, pytest.mark.timeout(600)]

DELAYED: Any = {"x-delayed-type": "direct"}
LATER = Basic.Properties(delivery_mode=2, headers={"x-delay": 3_600_000})
VHOST = "team"
NAMES = ("full", "empty", "again", "later", "x", VHOST)
"""What is deleted, in this order: queues, a delayed exchange, an exchange, a virtual host."""


BOUND = ["again", "empty", "full", "kept"]
WHOLE: dict[str, Any] = {
    "full": ([b"old"], ["later", "x"]),
    "empty": ([], ["later", "x"]),
    "later": BOUND,
    "x": [*BOUND, "y"],
    VHOST: ["q"],
}
"""What each is: bodies and exchanges of a queue, destinations of an exchange, queues of a vhost."""


@dataclass
class Deletions:
    """Deletions on a good disk: what the clients learned of each.

    Attributes:
        root: Directory that the deletions were made in.
        changes: Changes of the disk, in order.
        spans: Operations during which each deletion was carried out, by name.
        operations: Names of all operations.
    """

    root: Path
    changes: list[Change]
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    operations: list[str] = field(default_factory=list)

    def kinds(self) -> list[tuple[str, str | None]]:
        """Return of each operation what it is, and in which deletion."""
        names: list[str | None] = [None] * len(self.operations)
        for name, (begun, ended) in self.spans.items():
            names[begun:ended] = [name] * (ended - begun)
        return list(zip(self.operations, names, strict=True))


def build(server: InlineServer, client: InlineClient) -> None:
    """Make one of each kind; what is confirmed here is on the disk."""
    client.open_channel(2, confirms=True)
    for exchange in ("x", "y"):
        client.call(Exchange.Declare(exchange=exchange, exchange_type="topic", durable=True))
    client.call(Exchange.Declare(0, "later", "x-delayed-message", False, True, arguments=DELAYED))
    for queue in ("full", "empty", "again", "kept"):
        client.call(Queue.Declare(queue=queue, durable=True))
        for exchange in ("x", "later"):
            client.call(Queue.Bind(queue=queue, exchange=exchange, routing_key=queue))
    client.call(Exchange.Bind(destination="y", source="x", routing_key="#"))
    for queue in ("full", "again", "kept"):
        client.publish(b"old", queue, channel=2)
    client.publish(b"waits", "kept", "later", LATER, channel=2)
    server.settle()
    assert client.confirmed == {1, 2, 3, 4}
    broker = server.server.broker
    server.loop.run_until_complete(server.server.vhost_changes.create(VHOST))
    channel = inner_channel("test", broker.vhosts[VHOST], broker)

    async def declare() -> None:
        declared = declare_queue(channel, QueueDeclare(queue="q", durable=True))
        assert isinstance(declared, Applied)
        assert declared.durable is not None
        await declared.durable

    server.loop.run_until_complete(declare())


def delete(server: InlineServer, client: InlineClient, name: str) -> bool:
    """Delete one of them; return whether that was answered."""
    if name == VHOST:
        with suppress(MetadataError):
            server.loop.run_until_complete(server.server.vhost_changes.delete(VHOST))
            server.settle()
            return True
        return False
    method = Exchange.Delete(exchange=name) if name in ("later", "x") else Queue.Delete(queue=name)
    answer = client.call(method)
    return isinstance(answer, Exchange.DeleteOk | Queue.DeleteOk)


def declare_again(server: InlineServer, client: InlineClient) -> None:
    """Declare the deleted queue again, in the turn in which it is deleted, with a message."""
    client.send(Queue.Delete(queue="again"), Queue.Declare(queue="again", durable=True))
    server.settle()
    client.received.clear()
    client.publish(b"new", "again", channel=2)
    server.settle()


@pytest.fixture(scope="module", autouse=True)
def one_binding_a_step() -> Iterator[None]:
    """Cut each deletion at every place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time_slice, "SLICE_SECONDS", 0.0)
        for module in (deletion_module, broker_module):
            patch.setattr(module, "STEP_OBJECTS", 1)
        yield


@pytest.fixture(scope="module")
def deletions(tmp_path_factory: pytest.TempPathFactory) -> Deletions:
    """Return a directory in which everything was deleted, and how that went."""
    root = tmp_path_factory.mktemp("deletions") / "played"
    root.mkdir()
    filesystem = FaultyFileSystem(root)
    filesystem.keep_changes()
    with InlineServer(root / "data", filesystem) as server:
        client = server.connect()
        build(server, client)
        assert filesystem.changes is not None
        deletions = Deletions(root, filesystem.changes)
        for name in NAMES:
            begun = len(filesystem.operations)
            if name == "again":
                declare_again(server, client)
                assert 5 in client.confirmed
            else:
                assert delete(server, client, name)
            deletions.spans[name] = (begun, len(filesystem.operations))
    deletions.operations = filesystem.operations[: filesystem.changes[-1].operation + 1]
    return deletions


def look(server: InlineServer) -> dict[str, object]:
    """Return what there is of each that was to be deleted; None: nothing."""
    broker = server.server.broker
    vhost = broker.vhosts["/"]
    found: dict[str, object] = {}
    sources = [exchange for name, exchange in vhost.exchanges.items() if name in ("x", "later")]
    bindings = {
        (each.source.name, each.destination.name)
        for exchange in sources
        for each in exchange.bindings.values()
    }
    for name in ("full", "empty", "again"):
        queue = vhost.queues.get(name)
        if queue is None:
            assert name not in {end for _, end in bindings}
            found[name] = None
            continue
        result = queue.store.log.read(0, 1 << 30, 1 << 20)
        bodies = [bytes(each)[-3:] for each in result.messages]
        found[name] = (bodies, sorted(source for source, end in bindings if end == name))
    for name in ("later", "x"):
        exchange = vhost.exchanges.get(name)
        found[name] = exchange and sorted(end for source, end in bindings if source == name)
    if (exchange := vhost.exchanges.get("later")) is not None:
        assert vhost.delay_queues[exchange].store.log.log_end_offset == 1
    found[VHOST] = sorted(broker.vhosts[VHOST].queues) if VHOST in broker.vhosts else None
    assert bytes(vhost.queues["kept"].store.log.read(0, 1, 1 << 20).messages[0]).endswith(b"old")
    return found


def check(storage_path: Path, *, may_warn: bool = False) -> dict[str, object]:
    """Start; return what is found. Nothing may have been taken for damage, and nothing be left."""
    with Warnings() as warnings, InlineServer(storage_path) as server:
        report = json.loads((storage_path / "recovery.json").read_bytes())
        assert report["metadata"]["unreadable"] == []
        assert report["outcome"] in ("clean", "torn")
        assert report["strangers"] == []
        lines = [line for line in warnings.lines if not line.startswith("recovered ")]
        assert may_warn or not lines
        found = look(server)
        broker = server.server.broker
        queues = list(broker.queues())
        logs = {path.name for path in storage_path.glob("logs/*/*/*")}
        assert logs <= {str(queue.incarnation) for queue in queues}
        for path in storage_path.glob("metadata/*/*/*.json"):
            assert b'"deleted": true' not in path.read_bytes(), path
    return found


def as_others_left_it(whole: Any, found: dict[str, object]) -> Any:  # noqa: ANN401 - as in WHOLE
    """Return what one is, without the bindings that went with another one."""
    if isinstance(whole, tuple):
        bodies, sources = whole
        return bodies, [each for each in sources if found[each] is not None]
    # The queue that is declared again is not bound.
    unbound = {"again"} if found["again"] in (([b"new"], []), ([], [])) else set()
    return [each for each in whole if each not in unbound and found.get(each, each) is not None]


def check_again(found: Any, span: tuple[int, int], number: int) -> None:  # noqa: ANN401
    """Check a queue that is deleted and declared again at once: it is the old or the new one."""
    begun, ended = span
    bodies, sources = found or ([], [])
    if bodies == [b"old"]:
        assert number < ended, "the old one came back"
        assert sources, "without its bindings"
        return
    assert number >= begun, "the old one is lost"
    assert bodies in ([], [b"new"])
    assert not sources, "the new one has the bindings of the old one"
    assert bodies or number < ended, "the new one is lost"


def test_a_power_cut_at_any_operation_leaves_all_or_nothing(
    deletions: Deletions, tmp_path: Path
) -> None:
    """Each deletion is cut in some operations of each kind, in all of them in the long run."""
    outcomes: dict[str, set[bool]] = {name: set() for name in WHOLE}
    begin = deletions.spans[NAMES[0]][0]
    kinds = deletions.kinds()
    numbers = [begin + each for each in some_of_each_kind(kinds[begin:], 0, 3)]
    for number, outcome, survivors in crashes(deletions.changes, 1, numbers=numbers):
        with own_root(tmp_path / str(number)) as root:
            leave(survivors, deletions.root, root)
            try:
                found = check(root / "data")
                check_again(found["again"], deletions.spans["again"], number)
                for name, whole in WHOLE.items():
                    begun, ended = deletions.spans[name]
                    assert found[name] in (as_others_left_it(whole, found), None), name
                    assert found[name] is not None or number >= begun, f"{name} is lost"
                    assert found[name] is None or number < ended, f"{name} came back"
                    outcomes[name].add(found[name] is None)
                if number % 3 == 0:
                    assert check(root / "data") == found
            except Exception as error:
                error.add_note(f"operation={number} outcome={outcome}")
                raise
    assert all(each == {False, True} for each in outcomes.values()), outcomes


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_refused_deletion_leaves_the_state_that_was_reported_and_no_damage(
    deletions: Deletions, tmp_path: Path, error: int
) -> None:
    """What was refused may be there or not; what was kept, is whole.

    Every sixth operation fails, others with the other error; every third in the long run.
    """
    begin = deletions.spans[NAMES[0]][0]
    if error == errno.ENOSPC and not TAKES_ALL:
        begin += 3
    for number in range(begin, len(deletions.operations), 3 if TAKES_ALL else 6):
        with own_root(tmp_path / str(number)) as root:
            filesystem = FaultyFileSystem(root, None, error, failing_operations=1)
            answered = {}
            try:
                with InlineServer(root / "data", filesystem) as server:
                    client = server.connect()
                    build(server, client)
                    filesystem.fail_at = number
                    for name in NAMES:
                        if name == "again":
                            continue
                        answered[name] = delete(server, client, name)
                        if client.closed is not None:
                            client = server.connect()
                    if number >= len(filesystem.operations):
                        # The queue that is declared again is left out here: these are fewer.
                        break
                found = check(root / "data", may_warn=True)
                for name, is_gone in answered.items():
                    assert found[name] is None or not is_gone, f"{name} came back"
                full: Any = found["full"]
                assert full is None or full[0] == [b"old"]
            except Exception as failure:
                failure.add_note(f"operation={number}")
                raise


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_what_the_disk_refuses_at_the_end_of_a_deleted_virtual_host_is_no_damage(
    deletions: Deletions, tmp_path: Path, error: int
) -> None:
    """The deletion has been answered, and what is left to do is to remove the note of it."""
    begun, ended = deletions.spans[VHOST]
    for number in range(ended - 8 - begun, ended + 4 - begun):
        with own_root(tmp_path / str(number)) as root:
            filesystem = FaultyFileSystem(root, None, error, failing_operations=1)
            try:
                with InlineServer(root / "data", filesystem) as server:
                    build(server, server.connect())
                    filesystem.fail_at = len(filesystem.operations) + number
                    is_gone = delete(server, server.connect(), VHOST)
                found = check(root / "data", may_warn=True)
                assert found[VHOST] is None or not is_gone
            except Exception as failure:
                failure.add_note(f"operation={number}")
                raise


def mark(name: str) -> Callable[[Path], Path]:
    def path(data: Path) -> Path:
        (log,) = data.glob(f"logs/%2f/{encode_name(name)}/*")
        return log / "deleted"

    return path


def test_a_deletion_that_the_disk_refuses_is_undone_with_its_mark(tmp_path: Path) -> None:
    """The mark alone would have removed the messages with the next start."""

    class Refusing(FaultyFileSystem):
        refuses = False

        def unlink(self, path: Path) -> None:
            if self.refuses and path.suffix == ".json":
                raise OSError(errno.EIO, "Input/output error")
            super().unlink(path)

    filesystem = Refusing(tmp_path)
    with InlineServer(tmp_path / "data", filesystem) as server:
        client = server.connect()
        client.open_channel(2, confirms=True)
        client.call(Queue.Declare(queue="q", durable=True))
        client.publish(b"kept", "q", properties=PERSISTENT, channel=2)
        server.settle()
        filesystem.refuses = True
        assert not delete(server, client, "q")
        assert not mark("q")(tmp_path / "data").exists()
        filesystem.refuses = False
    with InlineServer(tmp_path / "data") as server:
        assert server.server.broker.vhosts["/"].queues["q"].ready_count == 1


AUTO: Any = {"durable": True, "auto_delete": True}
LAST_BINDINGS: dict[str, tuple[Frame, Frame]] = {
    "queue": (Queue.Bind(queue="q", exchange="e1"), Queue.Delete(queue="q")),
    "exchange": (Exchange.Bind(destination="t", source="e1"), Exchange.Delete(exchange="t")),
    "binding": (
        Queue.Bind(queue="q", exchange="e1"),
        Queue.Unbind(queue="q", exchange="e1"),
    ),
}
"""What binds an auto-delete exchange, and what removes all of its bindings."""


def play_last_binding(played: Path, cause: str) -> tuple[list[Change], int, int]:
    """Remove the last bindings of a chain of exchanges; return the changes and their span."""
    bind, end = LAST_BINDINGS[cause]
    filesystem = FaultyFileSystem(played)
    filesystem.keep_changes()
    with InlineServer(played / "data", filesystem) as server:
        client = server.connect()
        client.call(Queue.Declare(queue="q", durable=True))
        client.call(Queue.Declare(queue="kept", durable=True))
        client.call(Exchange.Declare(exchange="t", exchange_type="fanout", durable=True))
        for exchange in ("e0", "e1"):
            client.call(Exchange.Declare(exchange=exchange, exchange_type="fanout", **AUTO))
        client.call(Exchange.Declare(0, "e2", "x-delayed-message", arguments=DELAYED, **AUTO))
        client.call(Exchange.Declare(exchange="used", exchange_type="fanout", **AUTO))
        client.open_channel(2, confirms=True)
        client.call(bind)
        if cause != "binding":
            for number in range(4):
                client.call(like(bind, routing_key=f"k{number}"))
            client.call(like(bind, **{"source" if cause == "exchange" else "exchange": "e0"}))
        for number in range(4):
            client.call(Exchange.Bind(destination="e1", source="e2", routing_key=f"k{number}"))
        client.call(Exchange.Bind(destination="e1", source="used"))
        client.call(Queue.Bind(queue="kept", exchange="used"))
        client.publish(b"waits", "k1", "e2", LATER, channel=2)
        client.publish(b"old", "q", channel=2)
        server.settle()
        assert client.confirmed == {1, 2}
        begun = len(filesystem.operations)
        assert isinstance(client.call(end), Queue.DeleteOk | Exchange.DeleteOk | Queue.UnbindOk)
        ended = len(filesystem.operations)
    assert filesystem.changes is not None
    return filesystem.changes, begun, ended


def like(bind: Frame, **changed: str) -> Frame:
    bind = copy(bind)
    for name, value in changed.items():
        setattr(bind, name, value)
    return bind


@pytest.mark.parametrize("cause", LAST_BINDINGS)
def test_a_power_cut_leaves_no_exchange_without_the_bindings_that_a_deletion_took(
    tmp_path: Path, cause: str
) -> None:
    """The exchange goes with its last binding, also if that is one of the last documents."""
    played = tmp_path / "played"
    played.mkdir()
    changes, begun, ended = play_last_binding(played, cause)
    outcomes: set[bool] = set()
    before = Disk()
    for change in changes:
        if change.operation < begun:
            change.apply(before)
    # Whatever the operations that follow leave by chance, one of them has left nothing.
    crashed = [each for each in crashes(changes, 1) if each[0] >= begun]
    for number, outcome, survivors in [(-1, "not begun", before.survivors(None)), *crashed]:
        with own_root(tmp_path / str(number)) as root:
            leave(survivors, played, root)
            try:
                whole = check_last_binding(root / "data", cause)
                assert whole or number >= begun, "it is lost"
                assert not whole or number < ended, "it came back"
                outcomes.add(whole)
            except Exception as error:
                error.add_note(f"operation={number} outcome={outcome}")
                raise
    assert outcomes == {False, True}


def check_last_binding(data: Path, cause: str) -> bool:
    """Start twice; return whether all of it is there. It may not be there in part."""
    found = []
    for _ in range(2):
        with Warnings() as warnings, InlineServer(data) as server:
            report = json.loads((data / "recovery.json").read_bytes())
            assert report["metadata"]["unreadable"] == []
            assert report["outcome"] in ("clean", "torn")
            assert not [line for line in warnings.lines if not line.startswith("recovered ")]
            vhost = server.server.broker.vhosts["/"]
            found.append({name: len(each.bindings) for name, each in vhost.exchanges.items()})
            assert {str(each.incarnation) for each in server.server.broker.queues()} >= {
                path.name for path in data.glob("logs/*/*/*")
            }
    assert found[0] == found[1]
    whole = {"e0": 1, "e1": 5, "e2": 4, "used": 2, "t": 0}
    rest = {"used": 1, "t": 0}
    if cause == "binding":
        whole |= {"e0": 0, "e1": 1}
        rest["e0"] = 0
    elif cause == "exchange":
        del rest["t"]
    left = {name: count for name, count in found[0].items() if name in whole}
    assert left in (whole, rest)
    return left == whole


def test_a_start_that_is_cut_completes_what_the_deletion_left_unused(tmp_path: Path) -> None:
    """The crash came when the deletion of the queue was on the disk, and nothing else of it.

    The start is cut in every third operation of each kind, in all of them in the long run.
    """
    played = tmp_path / "played"
    played.mkdir()
    changes, _, _ = play_last_binding(played, "queue")
    log = played / "data" / "logs" / "%2f" / encode_name("q")
    survivors = next(
        each
        for _, _, each in crashes(changes, 1)
        if any(path.name == "deleted" and path.is_relative_to(log) for path in each)
    )
    with own_root(tmp_path / "whole") as root:
        leave(survivors, played, root)
        whole = FaultyFileSystem(root)
        with InlineServer(root / "data", whole):
            pass
    for number in some_of_each_kind(whole.operations, 0, 3):
        with own_root(tmp_path / str(number)) as root:
            leave(survivors, played, root)
            filesystem = FaultyFileSystem(root, number)
            with suppress(StartupError), InlineServer(root / "data", filesystem):
                pass
            try:
                assert not check_last_binding(root / "data", "queue")
            except Exception as error:
                error.add_note(f"operation={number} {whole.operations[number]}")
                raise
    assert len(whole.operations) > 20


def test_a_deletion_that_the_disk_refuses_takes_no_exchange_along(tmp_path: Path) -> None:
    class Refusing(FaultyFileSystem):
        def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
            if path.name == "deleted":
                raise OSError(errno.EIO, "Input/output error")
            return super().open(path, flags, mode)

    with InlineServer(tmp_path / "data", Refusing(tmp_path)) as server:
        client = server.connect()
        client.open_channel(2, confirms=True)
        client.call(Queue.Declare(queue="q", durable=True))
        client.call(Exchange.Declare(exchange="e", exchange_type="fanout", **AUTO))
        client.call(Queue.Bind(queue="q", exchange="e"))
        client.publish(b"kept", "q", properties=PERSISTENT, channel=2)
        server.settle()
        assert not delete(server, client, "q")
    with InlineServer(tmp_path / "data") as server:
        assert len(server.server.broker.vhosts["/"].exchanges["e"].bindings) == 1


class RefusingOnce(FaultyFileSystem):
    """Refuses to unlink one file, once."""

    refused: Path | None = None

    def unlink(self, path: Path) -> None:
        if path == self.refused:
            self.refused = None
            raise OSError(errno.EIO, "Input/output error")
        super().unlink(path)


DELETIONS: dict[str, tuple[str, Frame]] = {
    "queue": ("queues/%2f/q.json", Queue.Delete(queue="q")),
    "exchange": ("exchanges/%2f/x.json", Exchange.Delete(exchange="x")),
    "binding": ("bindings/%2f/*.json", Queue.Unbind(queue="q", exchange="x", routing_key="k")),
    "damaged queue": ("queues/%2f/q.json", Queue.Delete(queue="q")),
    "damaged exchange": ("exchanges/%2f/x.json", Exchange.Delete(exchange="x")),
}
"""What is deleted: its document, and how."""


def declare_bound(server: InlineServer) -> InlineClient:
    """Make a bound queue with a message; return the client that has done it."""
    client = server.connect()
    client.call(Queue.Declare(queue="q", durable=True))
    client.call(Exchange.Declare(exchange="x", exchange_type="direct", durable=True))
    client.call(Queue.Bind(queue="q", exchange="x", routing_key="k"))
    client.open_channel(2, confirms=True)
    client.publish(b"old", "q", properties=PERSISTENT, channel=2)
    server.settle()
    assert client.confirmed == {1}
    return client


def found_after_a_start(data: Path) -> tuple[set[str], set[str], int, int]:
    """Return queues, exchanges of clients, and the numbers of bindings and of logs."""
    with InlineServer(data) as server:
        vhost = server.server.broker.vhosts["/"]
        exchanges = {name for name in vhost.exchanges if name and not name.startswith("amq.")}
        bindings = sum(len(each.bindings) for each in vhost.exchanges.values())
        report = json.loads((data / "recovery.json").read_bytes())
        assert report["metadata"]["unreadable"] == []
        return set(vhost.queues), exchanges, bindings, len(list(data.glob("logs/*/*/*")))


LEFT = {
    "queue": (set(), {"x"}, 0, 0),
    "exchange": ({"q"}, set(), 0, 1),
    "binding": ({"q"}, {"x"}, 0, 1),
}


@pytest.mark.parametrize("kind", DELETIONS)
def test_a_refused_deletion_that_is_repeated_is_answered_when_the_disk_has_it(
    tmp_path: Path, kind: str
) -> None:
    """The object was out of memory, so its second deletion was answered at once: it came back."""
    pattern, method = DELETIONS[kind]
    data = tmp_path / "data"
    with InlineServer(data) as server:
        declare_bound(server)
    (document,) = (data / "metadata").glob(pattern)
    if kind.startswith("damaged"):
        document.write_bytes(b"{")
    filesystem = RefusingOnce(tmp_path)
    with InlineServer(data, filesystem) as server:
        client = server.connect()
        filesystem.refused = document
        client.call(method)
        assert filesystem.refused is None
        assert client.closed is not None, "the disk has refused it"
        again = server.connect()
        answer = again.call(method)
        assert isinstance(answer, Queue.DeleteOk | Exchange.DeleteOk | Queue.UnbindOk)
        assert not document.exists(), "answered before the disk had it"
    assert found_after_a_start(data) == LEFT[kind.removeprefix("damaged ")]


@pytest.mark.parametrize("kind", ["queue", "exchange"])
def test_what_takes_the_name_of_a_refused_deletion_takes_its_document_along(
    tmp_path: Path, kind: str
) -> None:
    """A transient object has no document of its own, so its deletion left the old one."""
    pattern, method = DELETIONS[kind]
    data = tmp_path / "data"
    filesystem = RefusingOnce(tmp_path)
    with InlineServer(data, filesystem) as server:
        client = declare_bound(server)
        (filesystem.refused,) = (data / "metadata").glob(pattern)
        client.call(method)
        again = server.connect()
        if kind == "queue":
            again.call(Queue.Declare(queue="q", durable=False))
        else:
            again.call(Exchange.Declare(exchange="x", exchange_type="fanout", durable=False))
        answer = again.call(method)
        assert isinstance(answer, Queue.DeleteOk | Exchange.DeleteOk)
    assert found_after_a_start(data) == LEFT[kind]


def test_a_refused_deletion_that_is_refused_again_gets_an_error_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    filesystem = RefusingOnce(tmp_path)
    with InlineServer(data, filesystem) as server:
        declare_bound(server)
        (document,) = (data / "metadata").glob("queues/%2f/q.json")
        for _ in range(2):
            filesystem.refused = document
            client = server.connect()
            client.call(Queue.Delete(queue="q"))
            assert client.closed is not None
        assert not mark("q")(data).exists()
    assert found_after_a_start(data)[0] == {"q"}


def test_the_store_of_a_refused_deletion_is_forgotten_and_its_files_are_closed(
    tmp_path: Path,
) -> None:
    """It was kept until the stop, with its open files, for each deletion that was refused."""
    data = tmp_path / "data"
    filesystem = RefusingOnce(tmp_path)
    with InlineServer(data, filesystem) as server:
        before = filesystem.open_count, len(server.server.broker.storage._stores)
        client = declare_bound(server)
        (filesystem.refused,) = (data / "metadata").glob("queues/%2f/q.json")
        client.call(Queue.Delete(queue="q"))
        server.settle()
        assert (filesystem.open_count, len(server.server.broker.storage._stores)) == before
    with InlineServer(data) as server:
        assert server.server.broker.vhosts["/"].queues["q"].ready_count == 1
