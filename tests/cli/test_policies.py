"""`amqp-server policies` and `amqp-server operator-policies` against a real server."""

import json

import pytest

from tests.amqp_client import connect
from tests.cli.test_vhosts import refuse, run
from tests.servers import RunningServer

SHORT = '{"max-length": 1000}'


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.mark.parametrize(
    ("group", "noun"), [("policies", "policy"), ("operator-policies", "operator policy")]
)
def test_set_listed_changed_and_cleared(
    capsys: pytest.CaptureFixture[str], group: str, noun: str
) -> None:
    added = run(capsys, group, "set", "short", "^tmp\\.", SHORT, "--priority", "3")
    assert added == f"added {noun} 'short' in vhost '/'\n"
    changed = run(capsys, group, "set", "short", "^tmp\\.", SHORT, "--apply-to", "queues")
    assert changed == f"changed {noun} 'short' in vhost '/'\n"
    assert json.loads(run(capsys, group, "list", "--json")) == [
        {
            "vhost": "/",
            "name": "short",
            "pattern": "^tmp\\.",
            "apply-to": "queues",
            "definition": {"max-length": 1000},
            "priority": 0,
        }
    ]
    assert [line.split() for line in run(capsys, group, "list").splitlines()] == [
        ["PRIORITY", "APPLY-TO", "VHOST", "NAME", "PATTERN", "DEFINITION"],
        ["0", "queues", "/", "short", "^tmp\\.", '{"max-length":1000}'],
    ]
    cleared = run(capsys, group, "clear", "short")
    assert cleared == f"cleared {noun} 'short' in vhost '/'\n"
    assert json.loads(run(capsys, group, "list", "--json")) == []


def test_a_virtual_host_has_policies_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "vhosts", "add", "team")
    run(capsys, "policies", "set", "p", "", SHORT, "--vhost", "team")
    assert json.loads(run(capsys, "policies", "list", "--vhost", "/", "--json")) == []
    (listed,) = json.loads(run(capsys, "policies", "list", "--json"))
    assert listed["vhost"] == "team"
    missing = refuse(capsys, 1, "policies", "clear", "p")
    assert missing == "policy 'p' does not exist in vhost '/'"
    run(capsys, "policies", "clear", "p", "--vhost", "team")


def test_mistakes_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = refuse(capsys, 1, "policies", "set", "p", "(", SHORT)
    assert wrong.startswith("pattern should be regular expression but is invalid")
    assert refuse(capsys, 1, "policies", "set", "p", "", '{"max-length": -1}') == (
        "-1 is not a valid maximum length"
    )
    assert "not recognised" in refuse(
        capsys, 1, "operator-policies", "set", "p", "", '{"dead-letter-exchange": "x"}'
    )
    assert "not JSON" in refuse(capsys, 2, "policies", "set", "p", "", "{")
    assert "not a JSON object" in refuse(capsys, 2, "policies", "set", "p", "", "[]")
    assert "x" in refuse(capsys, 2, "policies", "set", "p", "", SHORT, "--apply-to", "x")
    assert refuse(capsys, 1, "policies", "list", "--vhost", "x") == "vhost 'x' does not exist"
    assert "set, list or clear" in refuse(capsys, 2, "policies")
    assert json.loads(run(capsys, "policies", "list", "--json")) == []


def test_stats_show_the_policy_of_a_queue(
    capsys: pytest.CaptureFixture[str], server: RunningServer
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("tmp.1")
        run(capsys, "policies", "set", "short", "^tmp\\.", SHORT)
        run(capsys, "operator-policies", "set", "cap", "", '{"max-length": 10}')
        lines = run(capsys, "stats", "--queue", "tmp.1").splitlines()
    shown = {line[:28].strip(): line[28:] for line in lines}
    assert shown["policy"] == "short"
    assert shown["operator policy"] == "cap"
    assert shown["effective policy definition"] == '{"max-length":10}'
    server.terminate()
    stored = json.loads(run(capsys, "stats", "--queue", "tmp.1", "--json"))
    assert stored["policy"] == "short"
    assert stored["effective_policy_definition"] == {"max-length": 10}
