"""`amqp-server --ephemeral`, as a test suite in another language uses it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from pathlib import Path

import pika
import pytest

from amqp_server.testing.reserved_port import ReservedPort
from amqp_server.testing.temporary_directory import PREFIX
from cli.ephemeral import is_ephemeral
from cli.main import command
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

pytestmark = pytest.mark.crash
URL = re.compile(r"amqp://guest:guest@127\.0\.0\.1:(\d+)/%2F\n")
COMMAND = (sys.executable, "-P", "-m", "amqp_server", "--ephemeral")


def wait_for_end(pid: int) -> None:
    """Return when a process has ended that may be no child of this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ended = wait_for([descriptor], HANG_SECONDS)
        assert ended, f"process {pid} goes on"
    finally:
        os.close(descriptor)


@contextmanager
def ephemeral(
    tmp_path: Path, *options: str, stdin: int = subprocess.PIPE
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a broker; yield its process and URL."""
    with subprocess.Popen(
        (*COMMAND, *options),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmp_path)},
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline()
            directory = directory_of(process.pid)
            assert process.stdout.readline() == f"{directory / 'data'}\n"
            yield process, url
            assert not directory.exists()
            assert list(tmp_path.iterdir()) == []
        finally:
            process.kill()


def directory_of(pid: int) -> Path:
    """Return the directory that a broker process has made and holds open."""
    targets = {each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir()}
    (found,) = [each for each in targets if each.name.startswith(PREFIX)]
    assert found.is_dir()
    return found


def test_the_first_line_is_its_url_and_its_end_leaves_nothing(tmp_path: Path) -> None:
    with ephemeral(tmp_path) as (process, url):
        assert URL.fullmatch(url)
        with pika.BlockingConnection(pika.URLParameters(url.strip())) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            channel.basic_publish("", "orders", b"one", pika.BasicProperties(delivery_mode=2))
            assert channel.basic_get("orders")[2] == b"one"
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0


def test_the_second_line_is_where_commands_find_it(tmp_path: Path) -> None:
    with ephemeral(tmp_path) as (process, url):
        with pika.BlockingConnection(pika.URLParameters(url.strip())) as connection:
            channel = connection.channel()
            channel.queue_declare("orders")
            channel.basic_publish("", "orders", b"one")
            channel.basic_publish("", "orders", b"two")
            assert channel.basic_get("orders")[2] == b"one"
            storage_path = directory_of(process.pid) / "data"
            command = (*COMMAND[:-1], "stats", "--json", "--queue", "orders")
            ended = subprocess.run(
                (*command, "--storage-path", str(storage_path)),
                capture_output=True,
                text=True,
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                timeout=60,
                check=True,
            )
        stats = json.loads(ended.stdout)
        assert (stats["ready"], stats["unacked"]) == (1, 1)
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0


def test_it_ends_when_its_parent_closes_the_pipe_to_it(tmp_path: Path) -> None:
    with ephemeral(tmp_path) as (process, url):
        assert URL.fullmatch(url)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(HANG_SECONDS) == 0


def test_it_ends_with_its_parent_where_there_is_no_pipe(tmp_path: Path) -> None:
    parent = (
        "import subprocess, sys, os, signal\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,"
        " stderr=subprocess.DEVNULL)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.readline()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        (sys.executable, "-c", parent, *COMMAND),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        directory = directory_of(pid)
        process.communicate("end\n")
    assert process.returncode == -signal.SIGKILL
    wait_for_end(pid)
    assert not directory.exists()


def test_it_goes_on_where_standard_input_is_at_its_end_from_the_beginning(tmp_path: Path) -> None:
    with ephemeral(tmp_path, stdin=subprocess.DEVNULL) as (process, url):
        for _ in range(2):
            pika.BlockingConnection(pika.URLParameters(url.strip())).close()
        assert process.poll() is None
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0


def test_a_port_can_be_given(tmp_path: Path) -> None:
    reserved = ReservedPort("127.0.0.1")
    with ephemeral(tmp_path, "--port", str(reserved.port)) as (process, url):
        match = URL.fullmatch(url)
        assert match
        assert int(match[1]) == reserved.port
        process.terminate()
        assert process.wait(HANG_SECONDS) == 0
    reserved.release()


def test_it_starts_again_where_it_was_and_is_empty(tmp_path: Path) -> None:
    port = None
    for _ in range(2):
        options = () if port is None else ("--port", port)
        with ephemeral(tmp_path, *options) as (process, url):
            match = URL.fullmatch(url)
            assert match
            assert port in (None, match[1])
            port = match[1]
            connection = pika.BlockingConnection(pika.URLParameters(url.strip()))
            channel = connection.channel()
            assert channel.queue_declare("orders", durable=True).method.message_count == 0
            channel.basic_publish("", "orders", b"one")
            # A client that is still connected: the broker is the one that closes.
            process.terminate()
            assert process.wait(HANG_SECONDS) == 0
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                channel.queue_declare("orders", passive=True)


@pytest.mark.parametrize(
    ("options", "environment", "reason"),
    [
        (
            ("--tls-only", "--tls-certificate", "x"),
            {},
            "--tls-only: --ephemeral prints a URL without",
        ),
        (("--storage-path", "x"), {}, "--storage-path: --ephemeral keeps no data directory"),
        ((), {"AMQP_SERVER_STORAGE_PATH": "x"}, "AMQP_SERVER_STORAGE_PATH: --ephemeral keeps no"),
        (("status",), {}, "--ephemeral before 'status' is an option of the server"),
    ],
)
def test_what_contradicts_it_is_refused(
    tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], reason: str
) -> None:
    ended = subprocess.run(
        (*COMMAND, *options),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"amqp-server: error: {reason}")
    assert ended.stderr.count("\n") == 1


def test_a_file_and_the_environment_can_ask_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.toml"
    path.write_text("ephemeral = true\n")
    for arguments in (["--config", str(path)], ["--ephemeral", "--config", str(path)]):
        with command.make_context("amqp-server", list(arguments)) as ctx:
            assert is_ephemeral(ctx)
    path.unlink()
    with command.make_context("amqp-server", []) as ctx:
        assert not is_ephemeral(ctx)
    monkeypatch.setenv("AMQP_SERVER_EPHEMERAL", "1")
    with command.make_context("amqp-server", []) as ctx:
        assert is_ephemeral(ctx)
