"""The commands of parameters, of the descriptions of virtual hosts, of users and definitions."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from amqp_server.audit.reading import AuditReader
from amqp_server.control.parameters import VALUE_BYTES_MAX
from amqp_server.definitions_file import entries_file
from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

KEPT = {"vhost": "/", "component": "federation-upstream"}
VALUES: list[Any] = [{"a": [1, None, True]}, "text", 5, 1.5, None, [], {}]


@pytest.mark.parametrize("value", VALUES)
def test_a_parameter_has_any_value_and_survives_a_restart(tmp_path: Path, value: object) -> None:
    storage_path = tmp_path / "data"
    place = {**KEPT, "name": "<s>/é"}
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        for is_new in (True, False):
            assert asking.ask("parameters.set", **place, value={"value": value}) is is_new
            assert asking.ask("global_parameters.set", name="g", value={"value": value}) is is_new
    with ThreadedServer(storage_path):
        rows = asking.ask("parameters.list")
        assert rows == [{**place, "value": value}]
        assert asking.ask("global_parameters.list") == [{"name": "g", "value": value}]
        for existed in (True, False):
            assert asking.ask("parameters.clear", **place) is existed
            assert asking.ask("global_parameters.clear", name="g") is existed
    with ThreadedServer(storage_path):
        assert asking.ask("parameters.list") == asking.ask("global_parameters.list") == []


def test_parameters_are_listed_by_place_with_operator_policies_and_limits(asking: Asking) -> None:
    asking.ask("vhosts.set", name="v")
    for vhost, component in (
        ("/", "federation-upstream-set"),
        ("v", "federation-upstream-set"),
        ("v", "federation-upstream"),
    ):
        place = {"vhost": vhost, "component": component, "name": "n"}
        asking.ask("parameters.set", **place, value={"value": 1})
    policy = {"pattern": "^a", "definition": {"max-length": 5}}
    assert asking.ask("operator_policies.put", vhost="v", name="o", policy=policy) is True
    limits = {"kind": "vhost", "name": "v", "limits": {"max-queues": 5}, "replace": False}
    asking.ask("limits.set", **limits)

    def found(**wanted: str) -> set[tuple[str, str]]:
        rows = asking.ask("parameters.list", **wanted)
        return {(row["vhost"], row["component"]) for row in rows}

    of_v = {("v", "federation-upstream-set"), ("v", "federation-upstream")}
    of_v |= {("v", "operator_policy"), ("v", "vhost-limits")}
    assert found(vhost="v") == of_v
    assert found() == {("/", "federation-upstream-set"), *of_v}
    assert found(component="federation-upstream-set") == {
        ("/", "federation-upstream-set"),
        ("v", "federation-upstream-set"),
    }
    assert found(vhost="/", component="operator_policy") == set()
    assert asking.refusal("parameters.list", vhost="gone").kind == "not_found"


def test_wrong_parameters_are_refused(asking: Asking) -> None:
    place = {**KEPT, "name": "n"}
    value = {"value": 1}
    for change in ({"component": ""}, {"component": "a/b"}, {"name": ""}, {"name": "n" * 256}):
        error = asking.refusal("parameters.set", **{**place, **change}, value=value)
        assert error.kind == "invalid_argument"
    for box in ({}, {"value": 1, "more": 2}, {"value": "x" * VALUE_BYTES_MAX}):
        assert asking.refusal("parameters.set", **place, value=box).kind == "invalid_argument"
    missing = asking.refusal("parameters.set", **{**place, "vhost": "gone"}, value=value)
    assert missing.kind == "not_found"


def test_values_of_parameters_are_not_recorded(tmp_path: Path) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        secret = {"value": {"src-uri": "amqp://u:MARKER@host"}}
        asking.ask("parameters.set", **KEPT, name="s", value=secret)
        asking.ask("parameters.clear", **KEPT, name="s")
        asking.ask("global_parameters.set", name="g", value=secret)
    events = [each["event"] for each in AuditReader(storage_path).new_events()]
    for event in ("parameter.set", "parameter.cleared", "global_parameter.set"):
        assert event in events
    assert "MARKER" not in "".join(
        path.read_text() for path in (storage_path / "audit").iterdir() if path.is_file()
    )


def test_a_described_virtual_host_survives_a_restart(tmp_path: Path) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path) as server:
        asking = Asking(storage_path)
        described = {"description": "d", "tags": ["a", "b"], "default_queue_type": "quorum"}
        assert asking.ask("vhosts.set", name="v", **described) == {"created": True}
        assert asking.ask("vhosts.set", name="v", description="e") == {"created": False}
        assert "v" in server.server.access.permissions
    with ThreadedServer(storage_path) as server:
        metadata = server.server.broker.vhosts["v"].metadata
        assert metadata == {**described, "description": "e"}


def test_only_its_creator_has_rights_in_a_new_virtual_host(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    admin = asking.add_user("admin", "", "", "")
    admin.ask("vhosts.set", name="v")
    assert list(threaded_server.server.access.permissions["v"]) == ["admin"]
    asking.of("nobody").ask("vhosts.set", name="w")
    assert threaded_server.server.access.permissions.get("w", {}) == {}


def test_a_protected_virtual_host_is_not_deleted(asking: Asking) -> None:
    asking.ask("vhosts.set", name="v", protected=True)
    error = asking.refusal("vhosts.delete", name="v")
    assert (error.kind, error.reason) == ("in_use", "vhost 'v' is protected from deletion")
    asking.ask("vhosts.set", name="v", protected=False)
    asking.ask("vhosts.delete", name="v")


def test_wrong_descriptions_are_refused(asking: Asking) -> None:
    for change in ({"tags": [5]}, {"description": "x" * 70_000}, {"name": ""}):
        error = asking.refusal("vhosts.set", **{"name": "v", **change})
        assert error.kind == "invalid_argument"
    assert [row["name"] for row in asking.ask("vhosts.list")] == ["/"]


def test_users_are_set_with_a_password_a_hash_or_none(asking: Asking) -> None:
    login = {"user": "u", "peer_host": "127.0.0.1"}
    assert asking.ask("users.set", name="u", tags=["a"], password="pw") == {"created": True}
    asking.ask("logins.check", **login, password="pw")
    hashed = asking.ask("passwords.hash", password="other")
    assert asking.ask("users.set", name="u", tags=[], **hashed) == {"created": False}
    asking.ask("logins.check", **login, password="other")
    (row,) = asking.ask("users.list", name="u", with_hashes=True)
    assert (row["password_hash"], row["tags"]) == (hashed["password_hash"], [])
    assert "password_hash" not in asking.ask("users.list", name="u")[0]
    asking.ask("users.set", name="u", tags=[])
    asking.refusal("logins.check", **login, password="other")
    for change in ({"name": ""}, {"tags": [5]}, {"password_hash": "!"}):
        error = asking.refusal("users.set", **{"name": "u", "tags": [], **change})
        assert error.kind == "invalid_argument"


def lines(*entries: tuple[str, dict[str, object]]) -> Iterator[str]:
    for index, (section, entry) in enumerate(entries):
        yield orjson.dumps([section, index, "", entry]).decode() + "\n"


def test_definitions_are_uploaded_in_parts_and_imported(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    queue = {"name": "é" * 50, "vhost": "/", "durable": True, "auto_delete": False}
    text = "".join(lines(("queues", {**queue, "arguments": {}})))
    name = ""
    for at in range(0, len(text), 40):
        name = asking.ask("definitions.upload", file=name, lines=text[at : at + 40])
    options = {"vhost": "", "rabbit_version": "", "dry_run": False}
    report = asking.ask("definitions.import", file=name, **options)
    assert report["sections"]["queues"]["created"] == 1
    assert "é" * 50 in threaded_server.server.broker.vhosts["/"].queues
    assert not list(threaded_server.server.config.storage_path.glob("definitions-*"))
    _, reports = asking.follow("definitions.export", vhost="/", with_head=True)
    assert reports[0]["head"]["original_vhost_name"] == "/"


def test_uploads_are_bounded(
    threaded_server: ThreadedServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    for wrong in ("../secret", "definitions-0.lines", "x"):
        assert asking.refusal("definitions.upload", file=wrong, lines="").kind == "limit_reached"
    names = [asking.ask("definitions.upload", file="", lines="") for _ in range(4)]
    assert "4 imports" in asking.refusal("definitions.upload", file="", lines="").reason
    # One that was given up makes room.
    path = threaded_server.server.config.storage_path / names[0]
    os.utime(path, (0, 0))
    asking.ask("definitions.upload", file="", lines="")
    assert not path.exists()
    monkeypatch.setattr(entries_file, "BYTES_MAX", 10)
    assert "the limit" in asking.refusal("definitions.upload", file=names[1], lines="x" * 11).reason
