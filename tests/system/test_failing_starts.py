"""A start that fails closes exactly what it has opened, at whichever step it fails."""

import asyncio
import errno
import gc
import shutil
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop
from pamqp.commands import Tx

from amqp_server import start_and_stop
from amqp_server.base.config import ServerConfig
from amqp_server.base.errors import StartupError
from amqp_server.recovery import stored_state
from amqp_server.recovery.start_report_file import load_report
from amqp_server.start_and_stop import RunningServer, recover_and_stop, start, try_recovery
from amqp_server.upkeep.alarms import Reading
from appendlog import FileSystem
from appendlog.files.dry_run import DryRunFileSystem
from metadata.names import LOGS_NAME
from metadata.redo_file import REDO_NAME
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.sampled import some_of_each_kind
from tests.threaded_server import ThreadedServer

OPERATIONS_MIN = 60
"""File operations of a start, at least: a walk with fewer steps has missed some."""


class UnexpectedError(Exception):
    """An error that no part of the server handles."""


class Failure:
    """Makes one of the file operations fail; any thread may use it.

    Args:
        at: Number of the operation that fails, from 0.
        error: What it raises.

    Attributes:
        operations: Names of the operations so far.
    """

    def __init__(self, at: int, error: Exception) -> None:
        self.at = at
        self.error = error
        self.operations: list[str] = []
        self._lock = threading.Lock()

    def count_one(self, name: str) -> None:
        """Count an operation that begins, or fail it."""
        with self._lock:
            number = len(self.operations)
            self.operations.append(name)
        if number == self.at:
            raise self.error

    def end(self) -> None:
        """Fail nothing from now on."""
        self.at = -1


_OPERATIONS = (
    *("open", "pread", "read_into", "pwrite", "pwritev", "fsync", "fdatasync", "truncate"),
    *("size", "file_size", "map", "rename", "unlink", "mkdir", "rmdir", "listdir"),
    *("scandir", "exists", "is_directory", "free_bytes", "sync_directory"),
)
"""Everything that touches a file, but `close`: it cannot fail and leave nothing open."""


def failing(kind: type[FileSystem], failure: Failure) -> Any:  # noqa: ANN401 - of a type made here
    """Return a file system of this kind, one of whose operations fails."""

    def counted(name: str) -> Callable[..., Any]:
        def operation(self: FileSystem, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the operation
            failure.count_one(name)
            return getattr(kind, name)(self, *arguments, **named)

        return operation

    return type("FailingFileSystem", (kind,), {name: counted(name) for name in _OPERATIONS})()


def open_files() -> set[tuple[int, str]]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add((int(entry.name), str(entry.readlink())))
    return found


def threads() -> set[threading.Thread]:
    """Return the threads of this process, but for the workers of the event loop."""
    return {each for each in threading.enumerate() if not each.name.startswith("uvloop_")}


async def outcome(begin: Callable[[], Awaitable[object]]) -> Exception | None:
    """Return the error of a start, if it fails, and stop the server, if it does not.

    Then the process must hold what it held before: files, sockets, threads, tasks, callbacks.
    """
    # The event loop keeps a descriptor of its own from the first use on.
    listener = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    listener.close()
    await listener.wait_closed()
    before = open_files(), threads(), asyncio.all_tasks(), list(gc.callbacks)
    error = None
    try:
        running = await begin()
        if isinstance(running, RunningServer):
            assert await running.stop()
    except (UnexpectedError, OSError, StartupError) as raised:
        error = raised
    for thread in threads() - before[1]:
        await asyncio.to_thread(thread.join, HANG_SECONDS)
    # uvloop closes sockets in its next turn.
    await asyncio.sleep(0)
    assert open_files() - before[0] == set()
    assert threads() - before[1] == set()
    assert asyncio.all_tasks() == before[2]
    assert gc.callbacks == before[3]
    return error


async def _start(path: Path, failure: Failure) -> None:
    running = await start(config(path), failing(FileSystem, failure))
    failure.end()
    assert await running.stop()


async def _recover(path: Path, failure: Failure) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # The command uses the operating system's file operations, always.
        patch.setattr(start_and_stop, "FileSystem", lambda: failing(FileSystem, failure))
        await recover_and_stop(config(path))


async def _try(path: Path, failure: Failure) -> None:
    with failing(DryRunFileSystem, failure) as filesystem:
        await try_recovery(config(path), filesystem)


def config(path: Path, port: int = 0) -> ServerConfig:
    return ServerConfig(
        host="127.0.0.1", port=port, storage_path=path, offset_checkpoint_interval_seconds=0
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with two queues of three messages each, and with settled ones."""
    path = tmp_path_factory.mktemp("filled") / "data"
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in ("a", "b"):
            client.declare(queue)
        for number in range(8):
            client.publish(b"%d" % number, "ab"[number % 2])
        client.expect_confirmed()
        for queue in ("a", "b"):
            assert client.get(queue, no_ack=True) is not None
    return path


RUNS: list[Callable[[Path, Failure], Awaitable[None]]] = [_start, _recover, _try]


@pytest.mark.parametrize("run", RUNS, ids=["start", "recover", "dry run"])
@pytest.mark.parametrize(
    "error", [UnexpectedError(), OSError(errno.EIO, "EIO")], ids=["unexpected", "EIO"]
)
def test_a_start_that_fails_at_any_file_operation_leaves_nothing_open(
    filled: Path, tmp_path: Path, run: Callable[[Path, Failure], Awaitable[None]], error: Exception
) -> None:
    """Every third operation of each kind fails, or all of them in the long run.

    The two errors meet other operations, and so do the three ways to start.
    """

    def run_with(at: int) -> tuple[Failure, Exception | None]:
        path = tmp_path / str(at)
        shutil.copytree(filled, path)
        failure = Failure(at, error)
        return failure, uvloop.run(outcome(partial(run, path, failure)))

    whole, refused = run_with(-1)
    assert refused is None
    assert len(whole.operations) > OPERATIONS_MIN
    turn = 2 * RUNS.index(run) + isinstance(error, OSError)
    numbers = some_of_each_kind(whole.operations, turn, 3)
    errors = []
    for number in numbers:
        try:
            errors.append(run_with(number)[1])
        except AssertionError as left:
            left.add_note(f"operation={number} {whole.operations[number]}")
            raise
    raised = [each for each in errors if each is not None]
    if isinstance(error, OSError):
        # The operator gets one line, not a traceback.
        assert [each for each in raised if not isinstance(each, StartupError)] == []
        assert len(raised) > 3
    else:
        assert len(raised) > len(numbers) // 2


class _Sensor:
    """Does something at the first look, when everything is recovered and nothing listens yet."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def read(self) -> Reading:
        self._act()
        return Reading(0, 1 << 40)


def _refuse() -> None:
    raise UnexpectedError


def test_a_start_that_fails_after_recovery_stops_cleanly(filled: Path, tmp_path: Path) -> None:
    """Recovery has revoked the clean stop that was on record."""
    path = tmp_path / "data"
    shutil.copytree(filled, path)
    sensor = _Sensor(_refuse)
    error = uvloop.run(outcome(lambda: start(config(path), sensor=sensor)))
    assert isinstance(error, UnexpectedError)
    check_whole(path)


def test_a_start_that_is_cancelled_after_recovery_stops_cleanly(
    filled: Path, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    shutil.copytree(filled, path)

    async def begin() -> None:
        loop = asyncio.get_running_loop()
        sensor = _Sensor(lambda: loop.call_soon_threadsafe(starting.cancel))
        starting = asyncio.ensure_future(start(config(path), sensor=sensor))
        with pytest.raises(asyncio.CancelledError):
            await starting

    assert uvloop.run(outcome(begin)) is None
    check_whole(path)


def test_a_start_whose_address_is_taken_during_recovery_stops_cleanly(
    filled: Path, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    shutil.copytree(filled, path)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        sensor = _Sensor(other.listen)
        error = uvloop.run(outcome(lambda: start(config(path, port), sensor=sensor)))
    assert isinstance(error, StartupError)
    assert str(error) == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    check_whole(path)


def test_a_server_without_a_control_socket_stops_cleanly(filled: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(filled, path)
    # The server cannot remove it, logs that, and runs without a control socket.
    (path / "control.sock").mkdir()
    assert uvloop.run(outcome(lambda: start(config(path)))) is None
    (path / "control.sock").rmdir()
    check_whole(path)


def test_a_stop_leaves_nothing_open(filled: Path, tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(filled, path)

    async def begin() -> RunningServer:
        running = await start(config(path))
        # The file of the redo journal is open from the first commit on.
        await asyncio.to_thread(commit, running.address)
        return running

    assert uvloop.run(outcome(begin)) is None
    check_whole(path)


def commit(address: tuple[str, int]) -> None:
    """Commit a transaction that changes no queue but its own."""
    with connect(address) as client:
        client.open_channel()
        client.declare("c")
        client.call(Tx.Select(), Tx.SelectOk)
        client.publish(b"committed", "c")
        client.call(Tx.Commit(), Tx.CommitOk)


def check_whole(path: Path) -> None:
    """Check that the last stop was clean, and that every message is still there."""
    with ThreadedServer(path) as server, connect(server.address) as client:
        assert load_report(path)["was_clean_stop"] is True
        client.open_channel()
        for queue in ("a", "b"):
            for _ in range(3):
                message = client.get(queue)
                assert message is not None
                assert not message.redelivered
            assert client.get(queue) is None


@pytest.mark.parametrize("refused", ["amqp-disk-watch", "amqp-free-space"])
async def test_a_start_without_a_thread_for_the_disk_is_refused_in_one_line_or_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == refused:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    try:
        running = await start(config(tmp_path / "data"))
    except StartupError:
        return
    await running.stop()


class HungLogs(FileSystem):
    """Does not answer when the directories of the logs are listed."""

    def __init__(self) -> None:
        self.answers = threading.Event()

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        if path.name == LOGS_NAME:
            assert self.answers.wait(HANG_SECONDS)
        return super().scandir(path)


async def test_damaged_definitions_refuse_a_start_although_the_listing_of_the_logs_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_state, "LISTING_SECONDS_MAX", 0.01)
    assert await (await start(config(tmp_path))).stop()
    (tmp_path / "metadata" / REDO_NAME).write_bytes(b"damaged")
    files = HungLogs()
    try:
        async with asyncio.timeout(HANG_SECONDS):
            with pytest.raises(StartupError, match="redo"):
                await start(config(tmp_path), files)
    finally:
        files.answers.set()
