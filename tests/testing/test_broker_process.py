"""A broker in a process of its own."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from amqp_server.testing import BrokerProcess, BrokerProcessError, BrokerStateError
from tests.servers import REPOSITORY
from tests.testing.test_broker import left, publish_three_kinds

pytestmark = pytest.mark.crash


def test_a_kill_loses_nothing_that_was_confirmed_and_the_url_stays() -> None:
    before = set(threading.enumerate())
    with BrokerProcess() as process:
        url, pid = process.url, process.pid
        publish_three_kinds(url)
        process.kill()
        assert not process.is_running
        with socket.socket() as client:
            assert client.connect_ex((process.host, process.port)) == errno.ECONNREFUSED
        process.restart()
        assert process.pid != pid
        assert process.url == url
        assert left(url, "durable") == [b"persistent"]
        path = process.storage_path
        assert path.is_dir()
    assert not path.parent.exists()
    assert not path.exists()
    assert set(threading.enumerate()) == before


def test_commands_look_at_it_also_after_a_kill() -> None:
    with BrokerProcess() as process:
        publish_three_kinds(process.url)
        assert stats(process, "durable")["ready"] == 2
        process.kill()
        process.restart()
        assert stats(process, "durable")["ready"] == 1


def stats(process: BrokerProcess, queue: str) -> dict[str, Any]:
    """Return what `amqp-server stats` prints of a queue."""
    command = (sys.executable, "-P", "-m", "amqp_server", "stats", "--json", "--queue", queue)
    ended = subprocess.run(
        (*command, "--storage-path", str(process.storage_path)),
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        timeout=60,
        check=True,
    )
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_restart_of_a_running_broker_is_a_clean_stop() -> None:
    with BrokerProcess() as process:
        publish_three_kinds(process.url)
        process.restart()
        assert left(process.url, "durable") == [b"persistent"]
        assert any("stopping" in line for line in process.log)


def test_a_start_that_fails_shows_the_log() -> None:
    with BrokerProcess() as process:
        process.kill()
        (process.storage_path / "FORMAT").write_text("99\n")
        with pytest.raises(BrokerProcessError, match=r"did not start:\n(.*\n)*.*FORMAT"):
            process.start()


def test_it_says_what_it_cannot_do() -> None:
    process = BrokerProcess()
    with pytest.raises(BrokerStateError, match="has not started"):
        _ = process.url
    with pytest.raises(BrokerStateError, match="has not started"):
        _ = process.storage_path
    with process:
        with pytest.raises(BrokerStateError, match="runs already at amqp://"):
            process.start()
        process.kill()
        process.kill()
        for use in (process.stop, lambda: process.pid):
            with pytest.raises(BrokerStateError, match="does not run"):
                use()
    process.close()


def test_a_stop_that_is_not_clean_is_an_error() -> None:
    with BrokerProcess() as process:
        os.kill(process.pid, signal.SIGSTOP)
        stopped = threading.Timer(0.2, os.kill, (process.pid, signal.SIGKILL))
        stopped.start()
        with pytest.raises(BrokerProcessError, match="did not stop cleanly, exit code -9"):
            process.stop()
        stopped.join()
