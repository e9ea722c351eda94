"""The command as a process: exit codes, streams, and the folders it is started in."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.exit_codes import EXIT_REFUSED, EXIT_TRY_AGAIN
from metadata.directory_lock import DirectoryLock
from tests.limits import HANG_SECONDS
from tests.servers import NO_MANAGEMENT, RunningServer

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def environment() -> dict[str, str]:
    """Return the environment without settings of the server, with our packages importable."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("AMQP_SERVER_")}
    return kept | {"PYTHONPATH": str(REPOSITORY)}


def run(
    *arguments: str, environment: dict[str, str], directory: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "amqp_server", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_what_is_refused_is_one_line_on_standard_error_and_exit_code_2(
    environment: dict[str, str], tmp_path: Path
) -> None:
    ended = run("--port", "abc", environment=environment, directory=tmp_path)

    assert ended.stderr == "amqp-server: error: --port: 'abc' is not a valid integer.\n"
    assert (ended.returncode, ended.stdout) == (2, "")


def test_folders_of_the_user_with_our_names_do_not_stand_in_the_way(
    environment: dict[str, str], tmp_path: Path
) -> None:
    for name in ("appendlog", "cli", "metadata", "offsets", "ring"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")

    ended = run("--version", environment=environment, directory=tmp_path)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("amqp-server ")


def test_the_command_line_is_read_without_loading_an_event_loop_or_spark(
    environment: dict[str, str], tmp_path: Path
) -> None:
    program = (
        "import sys, cli.main; cli.main.main(['--help']);"
        "heavy = {'asyncio', 'uvloop', 'pyspark', 'numpy'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def refused(
    *arguments: str, environment: dict[str, str], directory: Path, code: int = EXIT_REFUSED
) -> str:
    """Start a server that must be refused; returns its one line on standard error."""
    ended = run("--port", "0", *arguments, environment=environment, directory=directory)
    assert (ended.returncode, ended.stdout) == (code, "")
    *log, complaint = ended.stderr.splitlines()
    assert all(line.startswith("time=") for line in log)
    assert complaint.startswith("amqp-server: error: ")
    return complaint


def test_a_taken_port_is_refused_by_name(environment: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        complaint = refused(
            "--port", port, environment=environment, directory=tmp_path, code=EXIT_TRY_AGAIN
        )

    assert port in complaint


def test_a_data_directory_that_cannot_be_made_is_refused_by_name(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "data")

    assert path in refused("--storage-path", path, environment=environment, directory=tmp_path)


def test_a_data_directory_of_a_running_server_is_refused_with_its_process(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    with DirectoryLock.acquire(path):
        complaint = refused(
            *("--storage-path", str(path)),
            environment=environment,
            directory=tmp_path,
            code=EXIT_TRY_AGAIN,
        )

    assert str(path) in complaint
    assert str(os.getpid()) in complaint


@pytest.mark.parametrize(
    ("command", "extra"), [("export", "spark"), ("demo", "demo")], ids=["export", "demo"]
)
def test_without_the_libraries_of_an_extra_the_command_says_what_to_install(
    tmp_path: Path, command: str, extra: str
) -> None:
    """Whichever of them is met first: py4j, which no one installs by name, gave a traceback."""
    hidden = "pyspark py4j pyarrow" if extra == "spark" else "pika"
    program = (
        "import sys; sys.modules.update(dict.fromkeys(sys.argv[1].split()));"
        "from cli.main import main; sys.exit(main(sys.argv[2:]))"
    )
    arguments = ["--storage-path", str(tmp_path / "data")]
    if command == "export":
        arguments += ["--queue", "q", "--out", str(tmp_path / "out")]

    done = subprocess.run(
        [sys.executable, "-c", program, hidden, command, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("amqp-server: error: this command needs ")
    _, _, advice = done.stderr.partition(": pip install ")
    quick = "; 'amqp-server demo --quick' needs nothing" if command == "demo" else ""
    assert advice == f"'amqp-server[{extra}]'{quick}\n"
    assert done.stderr.count("\n") == 1


def test_the_help_page_of_the_export_needs_no_library_of_an_extra() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys('pyspark py4j pyarrow numpy'.split()));"
        "from cli.main import main; sys.exit(main(['export', '--help']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--since" in done.stdout


def test_with_json_logs_every_line_of_a_server_is_one_object(tmp_path: Path) -> None:
    server = RunningServer(tmp_path / "data", environment={"AMQP_SERVER_LOG_FORMAT": "json"})
    with server:
        server.begin()
        listening = json.loads(server.wait_for_message('"event":"listening"'))
        address = (listening["fields"]["host"], listening["fields"]["port"])
        with socket.create_connection(address) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            peer = "{}:{}".format(*client.getsockname())
            refused = json.loads(server.wait_for_message("bad protocol header"))
        assert server.terminate() == 0

    assert (refused["level"], refused["event"]) == ("warning", "bad protocol header")
    assert refused["fields"]["peer"].startswith(f"{peer} -> ")
    events = [json.loads(line) for line in server.messages]
    assert {"listening", "stopping"} <= {each["event"] for each in events}
    assert all(each["time"].endswith("Z") and each["logger"] for each in events)


def test_with_json_logs_the_server_says_that_it_listens_at_every_level(tmp_path: Path) -> None:
    options = ("--log-format", "json", "--log-level", "error")
    with RunningServer(tmp_path / "data", *options, is_fork=False) as server:
        server.begin()
        server.wait_for_message('"event":"listening"')
        assert server.terminate() == 0
        assert len(server.messages) == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_start_is_complete_for_programs_that_wait_for_rabbitmq(
    environment: dict[str, str], tmp_path: Path, log_format: str
) -> None:
    """Testcontainers waits for `.*Server startup complete.*` on standard output."""
    command = [sys.executable, "-m", "amqp_server", "--port", "0", "--log-format", log_format]
    options = ["--storage-path", str(tmp_path / "data")]
    with subprocess.Popen(
        [*command, *options],
        cwd=tmp_path,
        env=environment | NO_MANAGEMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        rest, _ = process.communicate(timeout=HANG_SECONDS)
    if log_format == "json":
        written = json.loads(line)
        assert written["level"] == "info"
        line = written["event"] + "\n"
    assert (line, rest) == ("Server startup complete; 0 plugins started.\n", "")
    assert process.returncode == 0


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_a_closed_standard_output_is_nobody_s_fault(
    environment: dict[str, str], tmp_path: Path, argument: str
) -> None:
    """It gave a traceback, at the end of a server too."""
    done = subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m amqp_server {argument} >&-'],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_has_gone_ends_a_command_in_silence(
    environment: dict[str, str], tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "amqp_server", "--help"],
            cwd=tmp_path,
            env=environment,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")
