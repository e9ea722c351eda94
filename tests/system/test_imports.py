"""Imports store each message once, whatever interrupts them."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Queue

from amqp_server.admin.imports import import_state
from amqp_server.control.client import ControlError, UnreachableError
from amqp_server.control.import_client import ImportClient, ImportWork
from amqp_server.control.protocol import ErrorKind
from amqp_server.protocol.properties import Properties
from appendlog import LogReader, encode_message
from appendlog.layout.message import DEATHS_SHIFT, HAS_PRIORITY, PERSISTENT
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

SOURCE = "3f1c/orders"
BATCH = 2000


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    with connect(server.address) as connected:
        connected.open_channel(confirms=True)
        yield connected


@pytest.fixture
def imports(server: RunningServer) -> ImportClient:
    return ImportClient(server.storage_path)


def messages(count: int, first: int = 0, *, is_persistent: bool = True) -> list[bytes]:
    """Return numbered messages; every third one has a priority."""
    made = []
    for number in range(first, first + count):
        priority = number % 10 if number % 3 == 0 else None
        mode = 2 if is_persistent else 1
        properties = Properties(delivery_mode=mode, priority=priority, message_id=f"{number}")
        flags = (PERSISTENT if is_persistent else 0) | (0 if priority is None else HAS_PRIORITY)
        made.append(encode_message(flags, b"shop", b"new", properties.encode(), b"%d" % number))
    return made


def stored(storage_path: Path, queue: str) -> list[bytes]:
    """Return what a queue's log has."""
    found: list[bytes] = []
    for directory in sorted((storage_path / "logs" / "%2f" / queue).iterdir()):
        with LogReader(directory) as reader:
            for batch in reader.read(None, None):
                found += batch.messages
    return found


def test_imported_messages_are_unchanged_and_each_range_is_imported_once(
    server: RunningServer, client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("q")
    wanted = [
        *messages(200),
        encode_message(1, b"", b"", Properties(delivery_mode=2).encode(), b""),
    ]
    with imports.begin("q", source=SOURCE) as work:
        work.append(wanted[:100], 0, 100)
        work.append(wanted[100:], 150, 300)
        assert work.progress.ranges == [(0, 100), (150, 300)]
    assert stored(server.storage_path, "q") == wanted
    again = imports.begin("q", source=SOURCE).progress
    assert (again.ranges, again.imported) == ([(0, 100), (150, 300)], 201)
    assert client.ready_count("q") == 201
    message = client.get("q")
    assert message is not None
    assert message.body == b"0"


def test_an_imported_dead_letter_is_published_again(
    server: RunningServer, client: AmqpClient, imports: ImportClient
) -> None:
    """Wherever it is put, its earlier deaths are no cycle."""
    client.declare("q")
    rest = (b"", b"", b"\x00\x00", b"x")
    with imports.begin("q", source=SOURCE) as work:
        work.append([encode_message(PERSISTENT | 3 << DEATHS_SHIFT, *rest)], 0, 1)
    assert stored(server.storage_path, "q") == [encode_message(PERSISTENT, *rest)]


def test_another_source_or_another_run_starts_at_the_beginning(
    client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("q")
    for again in (False, True):
        with imports.begin("q", source=SOURCE, again=again) as work:
            assert work.progress.ranges == []
            work.append(messages(10), 0, 10)
    assert imports.look("q", source="other").ranges == []
    assert imports.look("q", source=SOURCE).imported == 20
    assert client.ready_count("q") == 20


def test_imported_ranges_survive_restarts_but_not_the_deletion_of_the_queue(
    server: RunningServer, client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("q")
    with imports.begin("q", source=SOURCE) as work:
        work.append(messages(10), 0, 10)
    client.close()
    server.terminate()
    server.restart()
    assert imports.look("q", source=SOURCE).ranges == [(0, 10)]
    with connect(server.address) as fresh:
        fresh.open_channel()
        fresh.call(Queue.Delete(queue="q"), Queue.DeleteOk)
        fresh.declare("q")
        assert imports.look("q", source=SOURCE).ranges == []


def test_starting_an_import_again_stops_the_first_one(
    client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("q")
    first = imports.begin("q", source=SOURCE)
    second = imports.begin("q", source=SOURCE)
    with pytest.raises(ControlError, match="has begun since") as refused:
        first.append(messages(5), 0, 5)
    assert refused.value.kind is ErrorKind.IN_USE
    second.append(messages(5), 0, 5)
    assert client.ready_count("q") == 5


def test_a_queue_that_cannot_take_messages_is_refused(
    client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("orders")
    client.declare("passing", durable=False)
    with pytest.raises(ControlError, match=r"no queue 'ordrs'.*nearest of 2: orders"):
        imports.begin("ordrs", source=SOURCE)
    with pytest.raises(ControlError, match="not durable"):
        imports.begin("passing", source=SOURCE)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (b"\x01", "expected at least"),
        (encode_message(1, b"", b"", b"\x20\x00\x00\x00\x00\xff", b""), "do not add up"),
        (encode_message(1, b"", b"", b"\x20\x01", b""), "do not add up"),
        (encode_message(3, b"", b"", b"\x00\x00", b""), "its flags are 3"),
        (encode_message(0x4B, b"", b"", b"\x00\x00", b""), "its flags are 11"),
        (b"", "expected at least"),
        (encode_message(0, b"", b"", b"\x10\x00\x02", b""), "its flags that it is not"),
        (encode_message(0, b"", b"", b"", b""), "no property flags"),
        (encode_message(1, b"", b"", b"\x00\x00", bytes(3000)), "accepts 2048"),
    ],
)
def test_an_import_refuses_octets_that_are_no_message(
    tmp_path: Path, message: bytes, fault: str
) -> None:
    with ThreadedServer(tmp_path, max_message_bytes=2048) as server:
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q")
        work = ImportClient(tmp_path).begin("q", source=SOURCE)
        with pytest.raises(ControlError, match=fault):
            work.append([*messages(3), message], 0, 4)
        assert ImportClient(tmp_path).look("q", source=SOURCE).imported == 0


def test_a_batch_whose_state_was_not_written_is_found_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = import_state.ImportStates.write

    def refuse(self: import_state.ImportStates, state: import_state.ImportState) -> None:
        if state.imported:
            raise OSError(28, "No space left on device")
        write(self, state)

    with ThreadedServer(tmp_path) as server:
        with connect(server.address) as client:
            client.open_channel()
            client.declare("q")
        with monkeypatch.context() as patch:
            patch.setattr(import_state.ImportStates, "write", refuse)
            work = ImportClient(tmp_path).begin("q", source=SOURCE)
            with pytest.raises(ControlError, match="No space left"):
                work.append(messages(40), 7, 50)
        assert ImportClient(tmp_path).begin("q", source=SOURCE).progress.partial == {7: 40}
    # Once more by the start of a server.
    with ThreadedServer(tmp_path):
        progress = ImportClient(tmp_path).look("q", source=SOURCE)
        assert (progress.partial, progress.ranges, progress.imported) == ({7: 40}, [], 40)


def test_a_full_queue_stops_an_import_which_can_continue_when_there_is_room(
    client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("q", arguments={"x-max-length": 25, "x-overflow": "reject-publish"})
    work = imports.begin("q", source=SOURCE)
    with pytest.raises(ControlError, match="is full"):
        work.append(messages(40), 0, 40)
    assert client.ready_count("q") == 25
    for _ in range(25):
        client.get("q")
    with imports.begin("q", source=SOURCE) as rest:
        assert rest.progress.partial == {0: 25}
        rest.append(messages(15, 25), 0, 40)
        assert (rest.progress.ranges, rest.progress.partial) == ([(0, 40)], {})
    assert client.ready_count("q") == 15


@pytest.mark.crash
@pytest.mark.parametrize("limit", [{"x-max-length": 5}, {"x-max-length-bytes": 5}])
def test_an_import_that_may_not_drop_leaves_what_has_no_room(
    client: AmqpClient, imports: ImportClient, limit: dict[str, int]
) -> None:
    """The queue has the default overflow: a publish would drop its oldest message."""
    client.declare("q", arguments=limit)
    work = imports.begin("q", source=SOURCE, may_drop=False)
    work.append(messages(3), 0, 3)
    with pytest.raises(ControlError, match="is full") as refused:
        work.append(messages(4, first=3), 3, 7)
    assert refused.value.details == {"taken": 2}
    got = [client.get("q", no_ack=True) for _ in range(5)]
    assert [each.body for each in got if each is not None] == [b"0", b"1", b"2", b"3", b"4"]
    # Where it goes on: a queue that is full all day must not leave a trace of each attempt.
    assert (imports.look("q", source=SOURCE).ranges, work.progress.partial) == ([(0, 5)], {})
    work.append(messages(2, first=5), 5, 7)
    assert client.ready_count("q") == 2
    assert (work.progress.ranges, work.progress.partial) == ([(0, 7)], {})


def test_an_import_into_a_server_that_is_killed_repeatedly_stores_each_message_once(
    server: RunningServer,
) -> None:
    wanted = messages(20_000)
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
    for kill in range(5):
        work = ImportClient(server.storage_path).begin("q", source=SOURCE)
        # While a batch is on its way, each time a little later.
        killer = threading.Timer(0.003 + 0.007 * kill, server.kill)
        killer.start()
        with contextlib.suppress(UnreachableError, ControlError):
            send_rest(work, wanted)
        killer.join()
        server.restart()
    work = ImportClient(server.storage_path).begin("q", source=SOURCE)
    send_rest(work, wanted)
    assert work.progress.ranges == [(0, len(wanted))]
    assert stored(server.storage_path, "q") == wanted


def send_rest(work: ImportWork, wanted: list[bytes]) -> None:
    """Send what is missing, in batches."""
    for at in range(0, len(wanted), BATCH):
        if not any(start <= at < end for start, end in work.progress.ranges):
            skipped = work.progress.partial.get(at, 0)
            work.append(wanted[at + skipped : at + BATCH], at, at + BATCH)


def test_a_new_import_waits_for_the_batch_that_is_being_stored(
    client: AmqpClient, imports: ImportClient
) -> None:
    client.declare("q")
    first = imports.begin("q", source=SOURCE)
    sender = threading.Thread(target=first.append, args=(messages(8000), 0, 8000))
    sender.start()
    while not client.ready_count("q"):
        pass
    second = imports.begin("q", source=SOURCE)
    sender.join()
    assert second.progress.ranges == [(0, 8000)]
    assert client.ready_count("q") == 8000
