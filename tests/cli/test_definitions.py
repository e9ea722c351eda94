"""`amqp-server definitions` against a real server."""

import json
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Queue

from amqp_server.control.client import ask
from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""Of RabbitMQ, for the password `test12`."""
DEFINITIONS: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "users": [
        {
            "name": "shop",
            "password_hash": HASH,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["management"],
            "limits": {"max-connections": 5},
        }
    ],
    "vhosts": [{"name": "/"}, {"name": "shop", "metadata": {"description": "orders"}}],
    "permissions": [
        {"user": "shop", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}
    ],
    "topic_permissions": [
        {"user": "shop", "vhost": "shop", "exchange": "news", "write": "^a", "read": "^b"}
    ],
    "parameters": [
        {
            "vhost": "shop",
            "component": "federation-upstream",
            "name": "move",
            "value": {"src-queue": "a"},
        }
    ],
    "global_parameters": [
        {"name": "cluster_name", "value": "rabbit@shop"},
        {"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-1"},
    ],
    "policies": [],
    "exchanges": [
        {
            "name": "news",
            "vhost": "shop",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "amq.fanout"},
        }
    ],
    "queues": [
        {
            "name": name,
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": arguments,
        }
        for name, arguments in (
            ("classic", {"x-max-length": 5, "x-queue-mode": "lazy"}),
            ("quorum", {"x-queue-type": "quorum", "x-delivery-limit": 3}),
            ("stream", {"x-queue-type": "stream", "x-max-age": "7D"}),
        )
    ],
    "bindings": [
        {
            "source": "news",
            "vhost": "shop",
            "destination": "classic",
            "destination_type": "queue",
            "routing_key": "a.#",
            "arguments": {"x": 1},
        },
        {
            "source": "amq.headers",
            "vhost": "shop",
            "destination": "news",
            "destination_type": "exchange",
            "routing_key": "",
            "arguments": {"x-match": "all", "n": 5},
        },
    ],
}


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with the definitions above."""
    return written(tmp_path, DEFINITIONS)


def written(tmp_path: Path, definitions: dict[str, Any], name: str = "in.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(definitions))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run what must be done; return what it writes."""
    code = main(["definitions", *map(str, arguments)])
    output = capsys.readouterr()
    assert (code, output.err) == (0, "")
    return output.out


def refuse(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """Run what must not be done; return the complaint."""
    assert main(["definitions", *map(str, arguments)]) == code
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def imported(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(run(capsys, "import", *arguments, "--json"))
    return report


def exported(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    definitions: dict[str, Any] = json.loads(run(capsys, "export", *arguments))
    return definitions


def counted(report: dict[str, Any], outcome: str) -> dict[str, int]:
    return {
        section: counts[outcome]
        for section, counts in report["sections"].items()
        if counts[outcome]
    }


def changed(section: str, **fields: object) -> dict[str, Any]:
    """Return the definitions with other fields in the first entry of a section."""
    first, *rest = DEFINITIONS[section]
    return {**DEFINITIONS, section: [{**first, **fields}, *rest]}


def without_source(definitions: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in definitions.items() if isinstance(value, list)}


def as_shop(server: RunningServer, password: str = "test12") -> AmqpClient:
    client = connect(server.address, user="shop", password=password, vhost="shop")
    client.open_channel()
    return client


def as_guest(server: RunningServer) -> AmqpClient:
    client = connect(server.address)
    client.open_channel()
    return client


def test_a_file_of_rabbitmq_is_imported_and_its_user_logs_in(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    report = imported(capsys, file)
    assert counted(report, "created") == {
        "vhosts": 1,
        "users": 1,
        "permissions": 1,
        "topic_permissions": 1,
        "global_parameters": 1,
        "parameters": 1,
        "exchanges": 1,
        "queues": 3,
        "bindings": 2,
    }
    assert counted(report, "skipped") == {"global_parameters": 1}
    with as_shop(server) as client:
        client.publish(b"news", "a.b", "news")
        message = client.get("classic")
        assert message is not None
        assert message.body == b"news"
        assert client.call(Queue.Declare(queue="quorum", passive=True), Queue.DeclareOk)
    with AmqpClient(server.address) as client:
        client.start(user="shop", password="wrong")
        client.expect_connection_close(403)


def test_the_second_import_of_a_file_changes_nothing(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    imported(capsys, file)
    again = imported(capsys, file)
    assert set(again["sections"]) == set(counted(again, "equal"))
    assert not counted(again, "created")
    assert not counted(again, "changed")
    assert again["different"] == []


def test_a_restart_keeps_what_was_imported(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    imported(capsys, file)
    before = exported(capsys)
    server.kill()
    server.restart()
    after = exported(capsys)
    assert {key: sorted(map(str, value)) for key, value in without_source(after).items()} == {
        key: sorted(map(str, value)) for key, value in without_source(before).items()
    }
    with as_shop(server) as client:
        client.publish(b"news", "a.b", "news")
        assert client.get("classic") is not None


def test_an_export_goes_into_an_empty_server_unchanged(
    capsys: pytest.CaptureFixture[str],
    server: RunningServer,
    start_server: StartServer,
    tmp_path: Path,
    file: Path,
) -> None:
    imported(capsys, file)
    path = tmp_path / "out.json"
    assert run(capsys, "export", path) == ""
    assert path.stat().st_mode & 0o777 == 0o600
    other = start_server()
    imported(capsys, path, "--storage-path", other.storage_path)
    assert exported(capsys, "--storage-path", other.storage_path) == json.loads(path.read_text())
    assert exported(capsys) == json.loads(path.read_text())


def test_the_export_has_the_form_of_rabbitmq_4(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    imported(capsys, file)
    found = exported(capsys)
    assert found["rabbitmq_definition_format"] == "cluster"
    assert found["original_cluster_name"] == "rabbit@shop"
    assert found["vhosts"][1] == {
        "name": "shop",
        "metadata": {"description": "orders"},
        "limits": {},
    }
    assert {(each["name"], each["type"]) for each in found["queues"]} == {
        ("classic", "classic"),
        ("quorum", "quorum"),
        ("stream", "stream"),
    }
    assert DEFINITIONS["users"][0] in found["users"]
    for section in ("exchanges", "bindings", "parameters"):
        assert sorted(map(str, found[section])) == sorted(
            str(dict(each)) for each in ordered(DEFINITIONS[section], found[section])
        )


def ordered(wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the wanted entries with their members in the order of those that were found."""
    return [{key: each[key] for key in found[0]} for each in wanted]


def test_a_dry_run_changes_nothing(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    before = exported(capsys)
    page = run(capsys, "import", file, "--dry-run")
    assert page.startswith("dry run: nothing has changed\n")
    assert ["3", "0", "0", "0", "0", "queues"] in [line.split() for line in page.splitlines()]
    assert exported(capsys) == before
    assert not list(server.storage_path.glob("definitions-*"))


@pytest.mark.parametrize(
    ("section", "fields", "difference"),
    [
        ("queues", {"arguments": {}}, "queue 'classic' in vhost 'shop' has arguments"),
        ("queues", {"durable": False}, "has durable True"),
        ("exchanges", {"type": "direct"}, "exchange 'news' in vhost 'shop' has type 'topic'"),
        ("exchanges", {"internal": True}, "has internal False"),
    ],
)
def test_what_exists_with_other_values_stays_and_is_named(
    capsys: pytest.CaptureFixture[str],
    server: RunningServer,
    tmp_path: Path,
    file: Path,
    section: str,
    fields: dict[str, Any],
    difference: str,
) -> None:
    imported(capsys, file)
    before = exported(capsys)
    report = imported(capsys, written(tmp_path, changed(section, **fields)))
    assert counted(report, "different") == {section: 1}
    assert f"{section}[0]: " in report["different"][0]
    assert difference in report["different"][0]
    assert exported(capsys) == before


def test_users_permissions_and_parameters_are_overwritten(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path, file: Path
) -> None:
    imported(capsys, file)
    definitions = {
        **changed("users", tags=["administrator"]),
        "permissions": [{**DEFINITIONS["permissions"][0], "write": "^$"}],
        "topic_permissions": [{**DEFINITIONS["topic_permissions"][0], "read": "c"}],
        "parameters": [{**DEFINITIONS["parameters"][0], "value": 2}],
        "vhosts": [{"name": "shop", "metadata": {"description": "other"}}],
    }
    report = imported(capsys, written(tmp_path, definitions))
    assert counted(report, "changed") == dict.fromkeys(
        ("vhosts", "users", "permissions", "topic_permissions", "parameters"), 1
    )
    server.kill()
    server.restart()
    found = exported(capsys)
    assert {"administrator"} == set(found["users"][1]["tags"])
    assert [each["write"] for each in found["permissions"] if each["user"] == "shop"] == ["^$"]
    assert found["topic_permissions"][0]["read"] == "c"
    assert found["parameters"][0]["value"] == 2
    assert found["vhosts"][1]["metadata"] == {"description": "other"}


@pytest.mark.parametrize(
    ("section", "fields", "mistake"),
    [
        ("queues", {"vhost": "x"}, "queues[0]: no vhost 'x'"),
        ("queues", {"name": ""}, "queues[0]: 'name' is empty"),
        ("queues", {"name": "q" * 256}, "queues[0]: 'name' is longer than 255 bytes"),
        ("queues", {"durable": 1}, "queues[0]: 'durable' is 1, expected true or false"),
        ("queues", {"arguments": 1}, "queues[0]: 'arguments' is 1, expected an object"),
        ("queues", {"arguments": {"x-max-length": -1}}, "queues[0]: invalid arg 'x-max-length'"),
        ("vhosts", {"name": "shop"}, "vhosts[1]: 'shop' has other values in vhosts[0]"),
        ("bindings", {"destination": "x"}, "bindings[0]: no queue 'x' in vhost 'shop'"),
        ("bindings", {"source": "x"}, "bindings[0]: no exchange 'x' in vhost 'shop'"),
        ("bindings", {"destination_type": "x"}, "bindings[0]: 'destination_type' is 'x'"),
        ("permissions", {"user": "x"}, "permissions[0]: no user 'x'"),
        ("permissions", {"vhost": "x"}, "permissions[0]: no vhost 'x'"),
        ("permissions", {"read": "("}, "permissions[0]: invalid read pattern"),
        ("topic_permissions", {"write": None}, "topic_permissions[0]: 'write' is None"),
        ("users", {"password_hash": "AA=="}, "users[0]: invalid password hash"),
        ("users", {"hashing_algorithm": "x"}, "users[0]: invalid password hash: unknown"),
        ("users", {"tags": 1}, "users[0]: 'tags' is neither"),
        ("users", {"limits": {"x": 1}}, "users[0]: 'limits' has the unknown limit 'x'"),
        ("vhosts", {"name": 5}, "vhosts[0]: 'name' is 5, expected a text"),
        ("parameters", {"component": "a/b"}, "parameters[0]: 'component' is 'a/b'"),
        ("parameters", {"component": "operator_policy"}, "parameters[0]: pattern not present"),
        (
            "vhosts",
            {"name": "v", "limits": {"x": 1}},
            "vhosts[0]: a vhost has no limit 'x': known are max-connections and max-queues",
        ),
        ("exchanges", {"arguments": {"alternate-exchange": 1}}, "exchanges[0]: invalid type"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_nothing_is_imported(
    capsys: pytest.CaptureFixture[str],
    server: RunningServer,
    tmp_path: Path,
    section: str,
    fields: dict[str, Any],
    mistake: str,
) -> None:
    before = exported(capsys)
    definitions = {**changed(section, **fields), "rabbit_version": "4.1.0"}
    complaint = refuse(capsys, 1, "import", written(tmp_path, definitions))
    assert mistake in complaint
    assert exported(capsys) == before
    assert not list(server.storage_path.glob("definitions-*"))


def test_all_mistakes_are_named(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    definitions = {"queues": [{"name": "q", "vhost": f"x{number}"} for number in range(3)]}
    lines = refuse(capsys, 1, "import", written(tmp_path, definitions)).splitlines()
    assert lines == [
        "queues[1]: no vhost 'x1'",
        "queues[2]: no vhost 'x2'",
        "amqp-server: error: queues[0]: no vhost 'x0' (and 2 more mistakes)",
    ]


def test_a_truncated_file_is_refused(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps(DEFINITIONS)[:-100])
    assert "not JSON" in refuse(capsys, 1, "import", path)


def test_what_this_server_lacks_is_skipped_with_what_depends_on_it(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    exchange = {"name": "recent", "vhost": "/", "type": "x-recent-history"}
    queue = {"name": "amq.gen-1", "vhost": "/", "durable": False}
    definitions = {
        "exchanges": [exchange],
        "queues": [queue, {"name": "q", "vhost": "/"}],
        "bindings": [
            {"source": "recent", "vhost": "/", "destination": "q", "routing_key": ""},
            {"source": "amq.topic", "vhost": "/", "destination": "amq.gen-1", "routing_key": "k"},
        ],
    }
    report = imported(capsys, written(tmp_path, definitions))
    assert counted(report, "created") == {"queues": 1}
    assert len(report["skipped"]) == 4
    assert (
        "exchanges[0]: exchange 'recent' has the unknown type 'x-recent-history'"
        in (report["skipped"])
    )


def test_a_binding_of_a_queue_that_was_exclusive_in_rabbitmq_is_skipped(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    binding = {"source": "amq.topic", "vhost": "/", "destination": "mine", "routing_key": "k"}
    path = written(tmp_path, {"rabbit_version": "3.10.8", "bindings": [binding]})
    assert counted(imported(capsys, path), "skipped") == {"bindings": 1}


def test_policies_apply_to_queues_that_exist_and_to_those_of_the_file(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    policy = {
        "name": "short",
        "pattern": "^q",
        "apply-to": "queues",
        "definition": {"max-length": 1, "ha-mode": "all"},
        "priority": 3,
    }
    operator: dict[str, Any] = {
        "component": "operator_policy",
        "name": "o",
        "vhost": "/",
        "value": {"pattern": "", "apply-to": "queues", "definition": [["max-length", 2]]},
    }
    definitions = {
        "vhosts": [{"name": "new"}],
        "permissions": [
            {"vhost": "new", "user": "guest", "configure": ".*", "write": ".*", "read": ".*"}
        ],
        "policies": [{"vhost": "/", **policy}, {"vhost": "new", **policy}],
        "parameters": [operator],
        "queues": [{"name": "q", "vhost": "new"}],
    }
    path = written(tmp_path, definitions)
    with as_guest(server) as client:
        client.declare("q", durable=True)
        client.declare("other", durable=True)
        report = imported(capsys, path)
        assert counted(report, "created")["policies"] == 2
        for queue, kept in (("q", 1), ("other", 2)):
            for body in (b"1", b"2", b"3"):
                client.publish(body, queue)
            assert client.ready_count(queue) == kept
    with connect(server.address, vhost="new") as client:
        client.open_channel()
        client.publish(b"1", "q")
        client.publish(b"2", "q")
        assert client.ready_count("q") == 1
    assert counted(imported(capsys, path), "equal")["policies"] == 2
    server.kill()
    server.restart()
    found = exported(capsys)
    assert found["policies"] == [{"vhost": "/", **policy}, {"vhost": "new", **policy}]
    value = {
        "pattern": "",
        "apply-to": "queues",
        "definition": {"max-length": 2},
        "priority": 0,
    }
    assert found["parameters"] == [{**operator, "value": value}]


def test_limits_of_virtual_hosts_are_set(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    value = {"max-queues": 1}
    limits = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": value}
    vhosts = [{"name": "old", "limits": [["max-queues", 2]]}, {"name": "new", "limits": value}]
    path = written(tmp_path, {"vhosts": vhosts, "parameters": [limits]})
    imported(capsys, path)
    assert counted(imported(capsys, path), "equal") == {"vhosts": 2, "parameters": 1}
    server.kill()
    server.restart()
    found = exported(capsys)
    assert {each["name"]: each["limits"] for each in found["vhosts"]} == {
        "/": value,
        "old": {"max-queues": 2},
        "new": value,
    }
    with as_guest(server) as client:
        client.declare("a")
        client.send(Queue.Declare(queue="b"))
        client.expect_channel_close(406)


def test_queues_and_bindings_that_do_not_survive_a_restart_are_imported_too(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    definitions = {
        "queues": [{"name": "brief", "vhost": "/", "durable": False, "auto_delete": True}],
        "bindings": [{"source": "amq.topic", "vhost": "/", "destination": "brief"}],
    }
    path = written(tmp_path, definitions)
    imported(capsys, path)
    assert counted(imported(capsys, path), "equal") == {"queues": 1, "bindings": 1}
    server.kill()
    server.restart()
    assert exported(capsys)["queues"] == []


def test_a_file_of_one_virtual_host_goes_into_another(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path, file: Path
) -> None:
    imported(capsys, file)
    path = tmp_path / "one.json"
    run(capsys, "export", path, "--vhost", "shop")
    one = json.loads(path.read_text())
    assert one["rabbitmq_definition_format"] == "single_virtual_host"
    assert one["original_vhost_name"] == "shop"
    assert "users" not in one
    assert "vhost" not in one["queues"][0]
    assert "write --vhost NAME" in refuse(capsys, 1, "import", path)
    assert "vhost 'x' does not exist" in refuse(capsys, 1, "import", path, "--vhost", "x")
    assert "leave out --vhost" in refuse(capsys, 1, "import", file, "--vhost", "/")
    report = imported(capsys, path, "--vhost", "/")
    assert counted(report, "created") == {
        "exchanges": 1,
        "parameters": 1,
        "queues": 3,
        "bindings": 2,
    }
    again = tmp_path / "again.json"
    run(capsys, "export", again, "--vhost", "/")
    assert without_source(json.loads(again.read_text())) == without_source(one)


def test_numbers_of_a_client_are_those_of_the_file(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    """A client sends 32 bits where a file means 64; the objects are the same."""
    with as_guest(server) as client:
        client.declare("q", arguments={"x-max-length": 5})
        client.call(
            Queue.Bind(queue="q", exchange="amq.headers", arguments={"n": 5, "x-match": "any"}),
            Queue.BindOk,
        )
        path = tmp_path / "out.json"
        run(capsys, "export", path)
        report = imported(capsys, path)
    assert not counted(report, "created")
    assert not counted(report, "different")


def test_a_deleted_virtual_host_takes_its_values_along(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    imported(capsys, file)
    ask(server.storage_path, "vhosts.delete", name="shop")
    ask(server.storage_path, "vhosts.add", name="shop")
    server.kill()
    server.restart()
    found = exported(capsys)
    assert found["parameters"] == []
    assert found["vhosts"][1]["metadata"] == {}


def test_the_export_for_rabbitmq_names_users_whose_hash_it_cannot_read(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path, file: Path
) -> None:
    imported(capsys, file)
    imported(capsys, written(tmp_path, {"users": [{"name": "slow", "password": "s", "tags": ""}]}))
    assert main(["definitions", "export", "--for", "rabbitmq"]) == 0
    output = capsys.readouterr()
    assert output.err == "user 'slow' has no password there: RabbitMQ cannot read its hash\n"
    users = {each["name"]: each for each in json.loads(output.out)["users"]}
    assert users["slow"]["password_hash"] == ""
    assert users["shop"]["password_hash"] == HASH


def test_clients_are_served_during_an_import_and_its_queues_can_be_deleted(
    capsys: pytest.CaptureFixture[str], server: RunningServer, tmp_path: Path
) -> None:
    definitions = {
        "queues": [{"name": f"q{number}", "vhost": "/"} for number in range(2000)],
        "bindings": [
            {"source": "amq.topic", "vhost": "/", "destination": f"q{number}", "routing_key": "k"}
            for number in range(2000)
        ],
    }
    imported(capsys, written(tmp_path, definitions))
    with as_guest(server) as client:
        # Its document may not be in its own file yet.
        client.call(Queue.Delete(queue="q7"), Queue.DeleteOk)
    server.kill()
    server.restart()
    found = exported(capsys)
    assert len(found["queues"]) == len(found["bindings"]) == 1999


def test_without_a_server_it_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], server: RunningServer, file: Path
) -> None:
    server.terminate()
    for command in (["export"], ["import", file]):
        assert "no server is running" in refuse(capsys, 2, *command)
    assert not list(server.storage_path.glob("definitions-*"))


def test_what_to_do_must_be_said(capsys: pytest.CaptureFixture[str], server: RunningServer) -> None:
    assert "write what to do: export or import" in refuse(capsys, 2)
