"""The broker changes nothing that belongs to the process of the tests, and leaves nothing."""

import asyncio
import gc
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
import pytest
import uvloop

from amqp_server.testing import Broker, temporary_directory
from amqp_server.testing.loop_thread import LoopThread
from amqp_server.testing.temporary_directory import MEMORY, PREFIX, TemporaryDirectory
from tests.limits import HANG_SECONDS
from tests.testing.test_broker import PERSISTENT, channel, left, publish_three_kinds


def state_of_the_process() -> dict[str, object]:
    """Return what a server of its own process would change."""
    loggers = [logging.getLogger(name) for name in sorted(logging.root.manager.loggerDict)]
    return {
        "collector": (gc.get_threshold(), gc.isenabled()),
        "callbacks of the collector": list(gc.callbacks),
        "switch interval": sys.getswitchinterval(),
        "limits": [resource.getrlimit(number) for number in range(resource.RLIMIT_NOFILE + 1)],
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "handlers of logging": [
            (each.name, each.handlers, each.level)
            for each in (logging.root, *loggers)
            if each.handlers or (each.level and not each.name.startswith("amqp_server."))
        ],
        "directory": Path.cwd(),
        "environment": dict(os.environ),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook),
        "warnings": list(warnings.filters),
        "children": Path(f"/proc/self/task/{os.getpid()}/children").read_text(),
    }


def open_files() -> list[str]:
    gc.collect()
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(f"{each.name} {each.readlink()}")
        except FileNotFoundError:
            continue
    return sorted(each for each in found if "/proc/" not in each)


def directories() -> set[Path]:
    parents = (temporary_directory.memory_directory(), temporary_directory.disk_directory())
    return {path for parent in parents for path in parent.glob(f"{PREFIX}*")}


@pytest.fixture
def nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Fail if threads, open files or directories are left that were not there before."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(temporary_directory, "MEMORY", tmp_path)
    # Its library opens a pipe for signals once in a process, and never closes it.
    uvloop.new_event_loop().close()
    threads, files, broker_directories = set(threading.enumerate()), open_files(), directories()
    pools = {pool_of(thread) for thread in threads}
    yield
    for thread in set(threading.enumerate()) - threads:
        # A start that is cancelled in the middle of a write does not wait for the disk.
        if pool_of(thread) not in pools:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive(), thread
    # What earlier tests have left may end at any time.
    assert set(open_files()) <= set(files)
    assert directories() <= broker_directories
    assert list(tmp_path.iterdir()) == []


def pool_of(thread: threading.Thread) -> str:
    """Return the name of a pool that may grow at any time; the thread's own if it is in none."""
    pool, _, number = thread.name.rpartition("_")
    return pool if number.isdecimal() else thread.name


@pytest.mark.usefixtures("nothing_left")
def test_the_process_is_the_same_while_the_broker_runs_and_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # How many objects are frozen tells nothing: what the tests have frozen may die at any time.
    for owner, name in ((os, "umask"), (os, "setsid"), (gc, "freeze"), (gc, "unfreeze")):
        monkeypatch.setattr(owner, name, forbidden(f"{owner.__name__}.{name}"))
    before = state_of_the_process()
    with Broker() as broker:
        publish_three_kinds(broker.url)
        assert state_of_the_process() == before
        broker.restart()
        broker.new_vhost()
        assert state_of_the_process() == before
    assert state_of_the_process() == before


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_after_crashes() -> None:
    with Broker() as broker:
        for _ in range(2):
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                opened = connection.channel()
                opened.confirm_delivery()
                opened.queue_declare("orders", durable=True)
                opened.queue_declare("exclusive", exclusive=True)
                opened.basic_publish("", "orders", b"one", PERSISTENT)
                opened.basic_publish("", "exclusive", b"one")
                opened.basic_consume("orders", lambda *_: None)
                broker.crash()
                with pytest.raises(pika.exceptions.AMQPConnectionError):
                    opened.queue_declare("orders", passive=True)
        files = len(open_files())
        broker.crash()
        assert len(open_files()) <= files


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_of_a_broker_whose_client_is_still_connected() -> None:
    with Broker() as broker:
        publish_three_kinds(broker.url)
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        connection.channel().basic_consume("durable", lambda *_: None)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        connection.channel()


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_of_a_start_that_fails() -> None:
    with Broker() as broker, pytest.raises(Exception, match="in use"):
        Broker(port=broker.port).start()


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("turns", [0, 1, 50, 200, 1000])
async def test_nothing_is_left_of_a_start_that_is_cancelled(turns: int) -> None:
    broker = Broker()
    starting = asyncio.create_task(broker.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await starting
    await broker.__aexit__(None, None, None)
    assert not broker.is_running


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("is_started", [False, True])
def test_nothing_is_left_of_a_start_that_a_signal_handler_interrupts(
    is_started: bool,
) -> None:
    submit = LoopThread.submit
    patch = pytest.MonkeyPatch()

    def interrupted(thread: LoopThread, coroutine: Coroutine[Any, Any, object]) -> Future[object]:
        """Return a future whose wait is interrupted, as by Ctrl-C."""
        patch.undo()
        future = submit(thread, coroutine)
        if is_started:
            future.result()
        patch.setattr(future, "result", interrupt)
        return future

    def interrupt() -> None:
        raise KeyboardInterrupt

    patch.setattr(LoopThread, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Broker().start()


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left_of_a_stopped_broker() -> None:
    with Broker() as broker:
        broker.stop()


def test_no_sync_reaches_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    pwritev = os.pwritev

    def unsynced(descriptor: int, buffers: list[bytes], position: int, flags: int = 0) -> int:
        assert flags == 0
        written.append(position)
        return pwritev(descriptor, buffers, position, flags)

    monkeypatch.setattr(os, "pwritev", unsynced)
    monkeypatch.setattr(os, "fsync", forbidden("os.fsync"))
    monkeypatch.setattr(os, "fdatasync", forbidden("os.fdatasync"))
    with Broker() as broker:
        publish_three_kinds(broker.url)
        broker.restart()
        assert left(broker.url, "durable") == [b"persistent"]
    assert written


def test_a_durable_broker_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    pwritev = os.pwritev

    def noted(descriptor: int, buffers: list[bytes], position: int, flags: int = 0) -> int:
        synced.append(flags)
        return pwritev(descriptor, buffers, position, flags)

    monkeypatch.setattr(os, "pwritev", noted)
    with Broker(durable=True) as broker, channel(broker.url) as opened:
        opened.queue_declare("durable", durable=True)
        synced.clear()
        opened.basic_publish("", "durable", b"x", PERSISTENT)
    assert os.RWF_DSYNC in synced


def forbidden(name: str) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise AssertionError(f"{name} was called")

    return refuse


# Directories

ABANDONING = """
import sys, os, signal, pathlib
from amqp_server.testing import temporary_directory
from amqp_server.testing.temporary_directory import TemporaryDirectory
directory = TemporaryDirectory(pathlib.Path(sys.argv[1]))
(directory.path / "data").mkdir()
print(directory.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def abandoned(parent: Path) -> Path:
    """Return a directory whose owner was killed."""
    command = (sys.executable, "-c", ABANDONING, str(parent))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return Path(ended.stdout.strip())


def age(path: Path) -> None:
    """Make a directory as old as one that nobody makes just now."""
    then = time.time() - temporary_directory.ABANDONED_SECONDS - 1
    os.utime(path, (then, then))


def test_directories_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    young, old = abandoned(tmp_path), abandoned(tmp_path)
    living = TemporaryDirectory(tmp_path)
    foreign = tmp_path / "data"
    foreign.mkdir()
    for path in (old, living.path, foreign):
        age(path)
    temporary_directory._remove_abandoned.cache_clear()
    next_one = TemporaryDirectory(tmp_path)
    assert set(tmp_path.iterdir()) == {young, living.path, foreign, next_one.path}
    next_one.remove()
    living.remove()
    living.remove()
    assert set(tmp_path.iterdir()) == {young, foreign}


def test_files_lie_in_memory_only_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert temporary_directory.memory_directory() == MEMORY
    monkeypatch.setattr(temporary_directory, "MEMORY_FREE_BYTES_MIN", 1 << 62)
    assert temporary_directory.memory_directory() == temporary_directory.disk_directory()
    monkeypatch.undo()
    monkeypatch.setattr(temporary_directory, "MEMORY", Path("/nothing/here"))
    assert temporary_directory.memory_directory() == temporary_directory.disk_directory()


# Whole programs

FORGETTING = """
from amqp_server.testing import Broker
import pika
broker = Broker().start()
connection = pika.BlockingConnection(pika.URLParameters(broker.url))
connection.channel().queue_declare("q", durable=True)
print(broker._directory.path)
"""

CASES = """
import threading, unittest
from amqp_server.testing import Broker
import pika

class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(Broker())

    def setUp(self):
        self.vhost = self.enterContext(self.broker.new_vhost())

    def test_one(self):
        self.declare()

    def test_two(self):
        self.declare()

    def declare(self):
        with pika.BlockingConnection(pika.URLParameters(self.vhost.url)) as connection:
            found = connection.channel().queue_declare("orders", durable=False)
            self.assertEqual(found.method.message_count, 0)
            connection.channel().basic_publish("", "orders", b"left behind")

def tearDownModule():
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()

unittest.main()
"""


ASYNC_CASES = """
import asyncio, threading, unittest
from amqp_server.testing import Broker
import aio_pika

class Orders(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(Broker())

    async def asyncSetUp(self):
        self.vhost = self.enterContext(self.broker.new_vhost())
        connection = await aio_pika.connect(self.vhost.url)
        self.channel = await (await self.enterAsyncContext(connection)).channel()

    async def test_one(self):
        await self.publish()

    async def test_two(self):
        await self.publish()

    async def publish(self):
        queue = await self.channel.declare_queue("orders")
        self.assertEqual(queue.declaration_result.message_count, 0)
        await self.channel.default_exchange.publish(aio_pika.Message(b"left behind"), "orders")
        await self.vhost.queue("orders").until_holds(1)

def tearDownModule():
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()

unittest.main()
"""


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, *options, "-c", code)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.crash
def test_a_program_that_forgets_to_close_the_broker_ends_and_leaves_no_directory() -> None:
    ended = run(FORGETTING)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert not Path(ended.stdout.strip()).exists()


@pytest.mark.crash
@pytest.mark.parametrize("cases", [CASES, ASYNC_CASES], ids=["TestCase", "IsolatedAsyncioTestCase"])
def test_a_unittest_case_has_a_broker_and_each_test_a_virtual_host(cases: str) -> None:
    ended = run(cases, "-W", "error")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.startswith("..\n")
    assert "Warning" not in ended.stderr
