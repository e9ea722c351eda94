"""Verbs whose output is this server's own: settings, log, certificates, report, refusals."""

import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pika
import pytest

from cli.main import main
from cli.rabbitmq_tools.helping import about_tool
from cli.rabbitmq_tools.main import run as run_here
from cli.rabbitmq_tools.refusals import REASONS
from cli.rabbitmq_tools.verbs import TOOLS, VERBS
from tests.limits import HANG_SECONDS
from tests.servers import NO_MANAGEMENT, RunningServer
from tests.tls.certificates import Authority

Capture = pytest.CaptureFixture[str]
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def say(server: RunningServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Return a function that runs a tool on the server, in this process."""
    monkeypatch.delenv("AMQP_SERVER_STORAGE_PATH", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_here(words[0], str(server.storage_path), words[1:])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run


def test_settings_are_shown_without_passwords(say: Say, server: RunningServer) -> None:
    code, output, _ = say("rabbitmqctl", "environment", "--formatter=json")
    found = json.loads(output)["amqp_server"]
    assert (code, found["storage_path"]) == (0, str(server.storage_path))
    assert not [name for name in found if "password" in name and not name.endswith("_file")]
    assert "      {heartbeat_seconds,60.0}," in say("rabbitmqctl", "environment")[1].splitlines()


def test_what_is_set_until_the_next_start_is_in_effect(say: Say) -> None:
    def found() -> tuple[object, ...]:
        value = json.loads(say("rabbitmqctl", "environment", "--formatter=json")[1])["amqp_server"]
        return value["log_level"], value["memory_bytes_max"], value["disk_free_limit_bytes"]

    assert say("rabbitmqctl", "set_log_level", "error")[0] == 0
    assert say("rabbitmqctl", "set_vm_memory_high_watermark", "absolute", "1GiB")[0] == 0
    assert say("rabbitmqctl", "set_disk_free_limit", "2MB")[0] == 0
    assert found() == ("error", 2**30, 2_000_000)
    assert say("rabbitmqctl", "set_vm_memory_high_watermark", "absolute", "1000")[0] == 69
    assert say("rabbitmqctl", "set_disk_free_limit", "1000")[0] == 69
    assert found() == ("error", 2**30, 2_000_000)


def test_an_alarm_follows_a_limit_at_once(say: Say) -> None:
    assert say("rabbitmqctl", "set_disk_free_limit", "1000TiB")[0] == 0
    assert say("rabbitmq-diagnostics", "check_local_alarms")[0] == 69
    assert say("rabbitmqctl", "node_health_check")[0] == 69
    assert say("rabbitmqctl", "set_disk_free_limit", "0")[0] == 0
    assert say("rabbitmq-diagnostics", "check_local_alarms")[0] == 0


def test_variables_of_the_server_are_shown_but_no_password(tmp_path: Path, capsys: Capture) -> None:
    variables = {"RABBITMQ_DEFAULT_PASS": "s3cret", "RABBITMQ_DEFAULT_USER": "ops", **NO_MANAGEMENT}
    with RunningServer(tmp_path / "d", environment=variables, is_fork=False).start() as server:
        assert run_here("rabbitmq-diagnostics", str(server.storage_path), ["-q", "os_env"]) == 0
        output = capsys.readouterr().out
        assert run_here("rabbitmq-diagnostics", str(server.storage_path), ["report"]) == 0
        report = capsys.readouterr().out
    assert {"RABBITMQ_DEFAULT_PASS=(hidden)", "RABBITMQ_DEFAULT_USER=ops"} <= set(
        output.splitlines()
    )
    assert "s3cret" not in output + report


def test_listeners_are_suspended_for_new_clients_only(say: Say, server: RunningServer) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", server.port)
    with pika.BlockingConnection(parameters) as client:
        assert say("rabbitmqctl", "suspend_listeners")[0] == 0
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(parameters)
        client.channel().queue_declare("works", exclusive=True)
        assert "works" in say("rabbitmqctl", "list_queues")[1]
        assert say("rabbitmqctl", "resume_listeners")[0] == 0
        pika.BlockingConnection(parameters).close()


def test_maintenance_closes_connections_and_the_lists_go_on(
    say: Say, server: RunningServer
) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", server.port)
    with pika.BlockingConnection(parameters) as client:
        assert say("rabbitmq-upgrade", "drain")[0] == 0
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance mode"):
            client.process_data_events(time_limit=HANG_SECONDS)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(parameters)
    assert say("rabbitmqctl", "list_queues")[0] == 0
    assert say("rabbitmq-diagnostics", "check_running")[0] == 0
    assert "Is under maintenance?: true" in say("rabbitmqctl", "status")[1]
    # As in RabbitMQ a start of the application ends it too.
    assert say("rabbitmqctl", "start_app")[0] == 0
    pika.BlockingConnection(parameters).close()


def test_the_log_is_shown(say: Say, server: RunningServer) -> None:
    pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port)).close()
    code, output, _ = say("rabbitmq-diagnostics", "-q", "log_tail", "-N", "200")
    assert code == 0
    assert "[info] amqp_server.client_session connection open peer=" in output
    assert len(say("rabbitmq-diagnostics", "-q", "log_tail", "-N", "1")[1].splitlines()) == 1
    assert say("rabbitmq-diagnostics", "log_tail", "-N", "0")[0] == 64
    assert say("rabbitmq-diagnostics", "-q", "log_location")[1] == "<stderr>\n"
    assert say("rabbitmq-diagnostics", "log_tail_stream", "-d", "x")[0] == 64


@pytest.mark.parametrize(
    ("verb", "wanted"),
    [
        (("consume_event_stream", "--pattern", "^queue"), b'"event":"queue.created"'),
        (("log_tail_stream",), b"log level set"),
    ],
)
def test_what_happens_is_shown_as_it_happens(
    tmp_path: Path, server: RunningServer, verb: tuple[str, ...], wanted: bytes
) -> None:
    tools = tmp_path / "tools"
    arguments = ["install-rabbitmq-tools", str(tools), "--storage-path"]
    assert main([*arguments, str(server.storage_path)]) == 0
    stop = threading.Event()

    def make_events() -> None:
        # Until the tool shows one: nobody knows when it has begun to listen.
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port)) as client:
            channel = client.channel()
            while not stop.is_set():
                channel.queue_declare("q")
                channel.queue_delete("q")
                run_here("rabbitmqctl", str(server.storage_path), ["-q", "set_log_level", "info"])

    maker = threading.Thread(target=make_events)
    maker.start()
    try:
        with subprocess.Popen(
            [str(tools / "rabbitmq-diagnostics"), *verb, "-q", "-d", "20"], stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            found = any(wanted in line for line in process.stdout)
            process.kill()
    finally:
        stop.set()
        maker.join()
    assert found


def test_a_stream_of_events_ends_in_time(say: Say) -> None:
    assert say("rabbitmq-diagnostics", "-q", "consume_event_stream", "-d", "1") == (0, "", "")


def test_certificates_that_end_soon_fail_the_check(tmp_path: Path, capsys: Capture) -> None:
    pair = Authority(tmp_path).server_pair("localhost")
    server = RunningServer(
        tmp_path / "d", *pair.options, "--tls-port", "0", environment=NO_MANAGEMENT
    )
    with server.start():
        path = str(server.storage_path)
        tool = "rabbitmq-diagnostics"
        assert run_here(tool, path, ["-q", "check_certificate_expiration", "--within", "0"]) == 0
        long = ["-q", "check_certificate_expiration", "--within", "9000", "--unit", "years"]
        assert run_here(tool, path, long) == 69
        written = capsys.readouterr()
        assert f"Certificate {pair.certificate} expires on " in written.err
        assert run_here(tool, path, ["-q", "certificates", "--formatter", "json"]) == 0
        assert "organizationName=tests ca" in capsys.readouterr().out


def test_channels_are_those_of_the_virtual_host_that_is_named(
    say: Say, server: RunningServer
) -> None:
    assert say("rabbitmqctl", "add_vhost", "other")[0] == 0
    assert say("rabbitmqctl", "set_permissions", "-p", "other", "guest", ".*", ".*", ".*")[0] == 0
    here = pika.ConnectionParameters("127.0.0.1", server.port)
    there = pika.ConnectionParameters("127.0.0.1", server.port, "other")
    with pika.BlockingConnection(here) as client, pika.BlockingConnection(there) as other:
        client.channel(1)
        other.channel(2)
        command = ("rabbitmqctl", "list_channels", "-s", "vhost", "number")
        assert say(*command, "-p", "other")[1].splitlines() == ["other\t2"]
        assert say(*command, "-p", "/")[1].splitlines() == ["/\t1"]
        assert sorted(say(*command)[1].splitlines()) == ["/\t1", "other\t2"]


def test_the_one_copy_of_a_queue_is_shown(say: Say, server: RunningServer) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port)) as client:
        channel = client.channel()
        for kind in ("classic", "quorum", "stream"):
            channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "stream", b"x")
    status = json.loads(say("rabbitmq-queues", "stream_status", "stream", "--formatter=json")[1])
    assert {"role": "writer", "offset": 2, "first_offset": 0}.items() <= status[0].items()
    raft = json.loads(say("rabbitmq-queues", "quorum_status", "quorum", "--formatter=json")[1])
    assert raft[0]["Raft State"] == "leader"
    assert say("rabbitmq-queues", "quorum_status", "classic")[0] == 69
    assert say("rabbitmq-queues", "peek", "quorum", "1")[0] == 69


def test_the_report_has_every_part_and_every_virtual_host(say: Say) -> None:
    assert say("rabbitmqctl", "add_vhost", "team")[0] == 0
    code, output, errors = say("rabbitmqctl", "report")
    assert (code, errors) == (0, "")
    for part in (
        "Status of node",
        "Cluster status of node",
        "Application environment of node",
        "Listing connections ...",
        "Listing queues for vhost / ...",
        "Listing queues for vhost team ...",
        'Listing permissions for vhost "/" ...',
    ):
        assert part in output


def test_what_means_nothing_here_is_refused_with_the_reason(say: Say) -> None:
    assert {name for name, verb in VERBS.items() if verb.family == "refusals"} == REASONS.keys()
    for name, reason in REASONS.items():
        least = VERBS[name].arguments_min
        code, output, errors = say(VERBS[name].tools[0], name, *["x"] * least)
        assert (code, output) == (69, "")
        assert errors == f"Error:\n{name} does nothing here: {reason}\n"


@pytest.mark.parametrize("tool", TOOLS)
def test_help_names_every_verb_of_a_tool_once(say: Say, tool: str) -> None:
    code, output, _ = say(tool, "help")
    assert (code, output) == (0, about_tool(tool) + "\n")
    listed = [line.split()[0] for line in output.splitlines() if line.startswith("   ")]
    assert sorted(listed) == sorted(name for name, verb in VERBS.items() if tool in verb.tools)
    assert say(tool, "--help")[:2] == (0, output)
    assert say(tool) == (64, "", output)


def test_every_verb_says_what_it_does(say: Say) -> None:
    for name, verb in VERBS.items():
        code, output, _ = say(verb.tools[0], "help", name)
        lines = output.splitlines()
        assert (code, lines[3].partition("[--quiet] ")[2]) == (0, verb.usage)
        assert lines[5].endswith(".")
        assert len(lines[5]) > 10
    assert say("rabbitmqctl", "add_user", "--help") == say("rabbitmqctl", "help", "add_user")


def test_an_option_of_another_verb_is_refused(say: Say) -> None:
    code, _, errors = say("rabbitmqctl", "list_users", "--tracking")
    assert code == 64
    assert errors.startswith(
        "Error (argument validation): Invalid options for this command:\n--tracking : \n"
    )
    assert say("rabbitmqctl", "close_all_connections", "--limit", "x", "why")[0] == 64


def test_a_tool_imports_nothing_that_takes_long() -> None:
    code = (
        "import sys; import cli.rabbitmq_tools.main, cli.rabbitmq_tools.health, "
        "cli.rabbitmq_tools.objects, cli.rabbitmq_tools.node; "
        "print(sorted({'asyncio', 'click', 'ssl', 'difflib', 'logging', 'pathlib'} "
        "& set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("verb", "code"), [("add_user", 65), ("change_password", 70), ("authenticate_user", 70)]
)
def test_a_password_that_does_not_come_is_not_a_blank_one(
    say: Say, monkeypatch: pytest.MonkeyPatch, verb: str, code: int
) -> None:
    # As RabbitMQ 3.10: what another program should have written did not come.
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    name = "new" if verb == "add_user" else "guest"

    assert say("rabbitmqctl", verb, name) == (
        code,
        "",
        "Error:\nPassword is not provided via argument or stdin\n",
    )
    assert "new" not in say("rabbitmqctl", "list_users")[1]
    assert say("rabbitmqctl", "authenticate_user", "guest", "guest")[0] == 0


def test_a_line_without_text_is_a_blank_password(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))

    assert say("rabbitmqctl", "add_user", "new")[0] == 0


def test_plugins_that_the_server_does_not_have_are_not_enabled(say: Say) -> None:
    code, output, error = say("rabbitmq-plugins", "enable", "rabbitmq_management", "rabbitmq_mqtt")

    assert code == 70
    assert "{:plugins_not_found, [:rabbitmq_mqtt]}" in error
    assert "configured" not in output
    assert say("rabbitmq-plugins", "enable", "rabbitmq_management")[0] == 0
    # What is not there is disabled already.
    assert say("rabbitmq-plugins", "disable", "rabbitmq_mqtt")[0] == 0
