"""`amqp-server install-rabbitmq-tools`, and the scripts that it writes."""

import json
import os
import subprocess
from pathlib import Path

import pika
import pytest

from cli.main import main
from cli.rabbitmq_tools.verbs import TOOLS, VERBS
from tests.cli.rabbitmq_tools.conversation import Exchange, run
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

Tools = Path


@pytest.fixture
def tools(tmp_path: Path, server: RunningServer) -> Tools:
    """Install the tools for the server."""
    directory = tmp_path / "with a space" / "tools"
    arguments = ["install-rabbitmq-tools", str(directory), "--storage-path"]
    assert main([*arguments, str(server.storage_path)]) == 0
    return directory


def call(tools: Tools, *words: str, **variables: str) -> Exchange:
    """Run a tool that knows nothing but what its script says."""
    return run(words, tools, "rabbit@host", {"PATH": os.defpath, **variables})


def test_every_tool_is_there_and_asks_the_server(tools: Tools) -> None:
    assert sorted(path.name for path in tools.iterdir()) == sorted(TOOLS)
    for tool in TOOLS:
        assert call(tools, tool, "version").code == 0
    assert call(tools, "rabbitmq-diagnostics", "-q", "ping").output == ("Ping succeeded",)
    assert call(tools, "rabbitmq-plugins", "add_user", "x", "y").code == 64


def test_names_are_written_in_utf_8_whatever_the_locale(tools: Tools) -> None:
    assert call(tools, "rabbitmqctl", "add_vhost", "größe", LC_ALL="POSIX").code == 0
    assert "größe" in call(tools, "rabbitmqctl", "list_vhosts", "-s", LC_ALL="POSIX").output


def test_another_data_directory_is_named_by_the_environment(tools: Tools, tmp_path: Path) -> None:
    found = call(
        tools, "rabbitmqctl", "list_users", AMQP_SERVER_STORAGE_PATH=str(tmp_path / "none")
    )
    assert (found.code, found.errors[0]) == (69, "Error:")
    assert str(tmp_path / "none") in found.errors[1]


def test_what_something_else_has_put_there_stays(
    tools: Tools, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["install-rabbitmq-tools", str(tools)]) == 0
    (tools / "rabbitmqctl").write_text("#!/bin/sh\n")
    capsys.readouterr()
    assert main(["install-rabbitmq-tools", str(tools)]) == 1
    assert "rabbitmqctl is not of amqp-server" in capsys.readouterr().err
    assert (tools / "rabbitmqctl").read_text() == "#!/bin/sh\n"


def test_every_verb_of_the_table_has_its_function() -> None:
    assert [name for name, verb in VERBS.items() if not callable(verb.load())] == []


def test_definitions_go_out_and_come_back(tools: Tools, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    assert call(tools, "rabbitmqctl", "add_vhost", "team").code == 0
    assert call(tools, "rabbitmqctl", "export_definitions", str(file)).code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert {"name": "team"}.items() <= json.loads(file.read_text())["vhosts"][1].items()
    assert call(tools, "rabbitmqctl", "delete_vhost", "team").code == 0
    assert call(tools, "rabbitmqctl", "import_definitions", str(file)).code == 0
    assert "team" in call(tools, "rabbitmqctl", "list_vhosts", "-s").output
    file.write_text("[]")
    assert call(tools, "rabbitmqctl", "import_definitions", str(file)).code == 65


def test_a_listed_process_id_closes_its_connection(tools: Tools, server: RunningServer) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port)) as client:
        listed = subprocess.run(
            [tools / "rabbitmqctl", "list_connections", "-s", "pid", "peer_port"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert listed[0].startswith("<rabbit@")
        done = subprocess.run(
            [tools / "rabbitmqctl", "-q", "close_connection", listed[0], "enough"], check=True
        )
        assert done.returncode == 0
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="enough"):
            client.process_data_events(time_limit=HANG_SECONDS)


def test_listed_connections_have_what_their_clients_say_of_themselves(
    tools: Tools, server: RunningServer
) -> None:
    said = {"connection_name": "one", "team": "billing"}
    parameters = pika.ConnectionParameters("127.0.0.1", server.port, client_properties=said)
    with pika.BlockingConnection(parameters):
        command = ["list_connections", "-s", "client_properties"]
        (listed,) = call(tools, "rabbitmqctl", *command).output
        assert '{"team","billing"}' in listed
        assert '{"product","Pika Python Client Library"}' in listed


def test_status_has_what_scripts_look_for(tools: Tools) -> None:
    text = call(tools, "rabbitmqctl", "status").output
    assert "RabbitMQ version: 3.13.7" in text
    value = json.loads("\n".join(call(tools, "rabbitmqctl", "status", "--formatter=json").output))
    assert {"rabbitmq_version", "alarms", "listeners", "pid"} <= value.keys()
    cluster = call(tools, "rabbitmqctl", "cluster_status", "--formatter", "json").output
    assert json.loads(cluster[0])["running_nodes"][0].startswith("rabbit@")


def test_the_checks_of_ports_name_those_of_the_server(tools: Tools, server: RunningServer) -> None:
    port = str(server.port)
    assert call(tools, "rabbitmq-diagnostics", "check_port_listener", port).code == 0
    found = call(tools, "rabbitmq-diagnostics", "-q", "check_port_connectivity")
    assert found.code == 0
    assert f"Successfully connected to ports {port} on node" in found.output[0]


def test_while_the_application_is_stopped_no_client_connects(
    tools: Tools, server: RunningServer
) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", server.port)
    with pika.BlockingConnection(parameters) as client:
        assert call(tools, "rabbitmqctl", "stop_app").code == 0
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            client.process_data_events(time_limit=HANG_SECONDS)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(parameters)
    assert call(tools, "rabbitmqctl", "start_app").code == 0
    pika.BlockingConnection(parameters).close()


def test_stop_ends_the_server(tools: Tools) -> None:
    assert call(tools, "rabbitmqctl", "stop").code == 0
    assert call(tools, "rabbitmq-diagnostics", "ping").code == 69
