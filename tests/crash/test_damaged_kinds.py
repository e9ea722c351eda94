"""Each kind of document, unreadable and missing: what it means, who tells, and what ends it.

docs/guarantees.md has the same rows as a table.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from pamqp.commands import Exchange, Queue

from amqp_server.access.passwords import PasswordHash
from amqp_server.broker.damaged_documents import EFFECTS, SINGULARS
from amqp_server.control.client import ask
from amqp_server.maintenance.backup import back_up
from amqp_server.maintenance.directory_check import check_directory
from amqp_server.maintenance.stored_queues import load_stored_queues
from cli.main import main
from tests.access.test_damaged_documents import logged_in
from tests.amqp_client import AmqpClient, connect
from tests.conformance.polling import eventually
from tests.crash.test_flipped_definitions import bind, is_refused
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

GUARANTEES: Final = Path(__file__).parents[2] / "docs" / "guarantees.md"
HASHED: Final = {
    "password_hash": PasswordHash.quick(b"secret").text,
    "hashing_algorithm": PasswordHash.quick(b"secret").algorithm,
}
PLACE: Final = {"vhost": "/", "user": "bob"}
PARAMETER: Final = {"vhost": "/", "component": "other", "name": "p"}


class Kind(NamedTuple):
    """A row of the table.

    Attributes:
        path: The document below `metadata`.
        holds: Checks that the meaning of an unreadable and of a missing document holds.
        accept: Commands that end it live: command and arguments.
        is_missed: Whether its loss is noticed.
    """

    path: str
    holds: Callable[[ThreadedServer, Path], None]
    accept: tuple[tuple[str, dict[str, Any]], ...] = ()
    is_missed: bool = True


def client_of(server: ThreadedServer, vhost: str = "/", user: str = "guest") -> AmqpClient:
    password = "guest" if user == "guest" else "secret"
    client = connect(server.address, vhost=vhost, user=user, password=password)
    client.open_channel(confirms=True)
    return client


def vhost_is_there(server: ThreadedServer, _: Path) -> None:
    with client_of(server, "prod") as client:
        assert client.ready_count("inside") == 1


def queue_is_reserved(server: ThreadedServer, data: Path) -> None:
    with client_of(server) as client:
        assert is_refused(client, "", "q")
        client.send(Queue.Declare(queue="q", durable=True))
        client.expect_channel_close(404)
    assert [*(data / "logs" / "%2f" / "q").rglob("*.log")] != []


def exchange_is_reserved(server: ThreadedServer, _: Path) -> None:
    with client_of(server) as client:
        client.send(Exchange.Declare(exchange="x", exchange_type="topic", durable=True))
        client.expect_channel_close(404)


def source_refuses(server: ThreadedServer, _: Path) -> None:
    with client_of(server) as client:
        assert is_refused(client, "y")


def nothing_is_dropped(server: ThreadedServer, _: Path) -> None:
    with client_of(server) as client:
        assert not is_refused(client, "", "limited")
        assert client.ready_count("limited") == 4


def bob_is_out(server: ThreadedServer, _: Path) -> None:
    assert logged_in(server, "bob", "secret") is None


def bob_has_no_key(server: ThreadedServer, _: Path) -> None:
    with client_of(server, user="bob") as client:
        client.publish(b"x", "key", "amq.topic")
        client.expect_channel_close(403)


def nobody_is_first(server: ThreadedServer, data: Path) -> None:
    ask(data, "vhosts.add", name="new")
    assert not server.call(lambda: server.server.access.may_access("guest", "new"))
    ask(data, "vhosts.delete", name="new")


def parameter_is_gone(server: ThreadedServer, _: Path) -> None:
    assert server.call(lambda: dict(server.server.broker.vhosts["/"].parameters)) == {}


def global_parameter_is_gone(server: ThreadedServer, _: Path) -> None:
    assert server.call(lambda: "g" not in server.server.broker.global_parameters)


def vhost_is_unlimited(server: ThreadedServer, _: Path) -> None:
    assert server.call(lambda: server.server.broker.vhosts["/"].limits.values) == {}


def vhost_is_undescribed(server: ThreadedServer, _: Path) -> None:
    assert server.call(lambda: server.server.broker.vhosts["/"].metadata) == {}


RESET: Final = ("users.reset", {"name": "guest", **HASHED})
KINDS: Final = {
    "vhosts": Kind("vhosts/%/prod.json", vhost_is_there),
    "queues": Kind("queues/%2f/q.json", queue_is_reserved),
    "exchanges": Kind("exchanges/%2f/x.json", exchange_is_reserved),
    "bindings": Kind("bindings/%2f/*.json", source_refuses, is_missed=False),
    "policies": Kind(
        "policies/%2f/p.json",
        nothing_is_dropped,
        (("policies.clear", {"vhost": "/", "name": "p"}),),
    ),
    "operator_policies": Kind(
        "operator_policies/%2f/o.json",
        nothing_is_dropped,
        (("operator_policies.clear", {"vhost": "/", "name": "o"}),),
    ),
    "users": Kind("users/%/bob.json", bob_is_out, (("users.delete", {"name": "bob"}),)),
    "permissions": Kind("permissions/%2f/bob.json", bob_is_out, (("permissions.clear", PLACE),)),
    "topic_permissions": Kind(
        "topic_permissions/%2f/bob.json", bob_has_no_key, (("topic_permissions.clear", PLACE),)
    ),
    "access": Kind("access/%/first_user.json", nobody_is_first, (RESET,)),
    "parameters": Kind(
        "parameters/%2f/other%2fp.json", parameter_is_gone, (("parameters.clear", PARAMETER),)
    ),
    "global_parameters": Kind(
        "global_parameters/%/g.json",
        global_parameter_is_gone,
        (("global_parameters.clear", {"name": "g"}),),
    ),
    "vhost_limits": Kind(
        "vhost_limits/%2f/limits.json",
        vhost_is_unlimited,
        (("limits.clear", {"kind": "vhost", "name": "/", "limits": []}),),
    ),
    "vhost_metadata": Kind(
        "vhost_metadata/%2f/metadata.json",
        vhost_is_undescribed,
        (("vhosts.set", {"name": "/", "description": ""}),),
    ),
}
"""Rows of the table, by kind."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a document of each kind."""
    path = tmp_path_factory.mktemp("whole") / "data"
    with ThreadedServer(path) as server, client_of(server) as client:
        for exchange in ("x", "y"):
            client.call(Exchange.Declare(exchange=exchange, durable=True), Exchange.DeclareOk)
        for queue in ("q", "bound", "limited"):
            client.declare(queue)
        bind(client, "x", "q")
        bind(client, "y", "bound")
        for _ in range(3):
            client.publish(b"kept", "limited")
        client.publish(b"kept", "q")
        client.expect_confirmed()
        fields = {"vhost": "/", "pattern": "^limited$", "apply_to": "queues"}
        for family, name in (("policies", "p"), ("operator_policies", "o")):
            definition = {"max-length": 3}
            ask(path, f"{family}.set", **fields, name=name, priority=0, definition=definition)
        ask(path, "users.add", name="bob", tags=[], **HASHED)
        ask(path, "permissions.set", **PLACE, configure=".*", write=".*", read=".*")
        row = {**PLACE, "exchange": "amq.topic"}
        ask(path, "topic_permissions.set", **row, write="key", read="key")
        server.run(lambda: server.server.parameters.set("/", "other", "p", {"a": 1}))
        ask(path, "global_parameters.set", name="g", value={"value": 1})
        limits = {"max-queues": 3}
        ask(path, "limits.set", kind="vhost", name="/", limits=limits, replace=False)
        ask(path, "vhosts.set", name="/", description="of all")
        ask(path, "vhosts.add", name="prod")
        with client_of(server, "prod") as inside:
            inside.declare("inside")
            inside.publish(b"kept", "inside")
            inside.expect_confirmed()
    return path


def document(data: Path, kind: str) -> Path:
    """Return the path of the document of a row."""
    found = sorted((data / "metadata").glob(KINDS[kind].path))
    # Of two bindings, that of `y`.
    return next(
        each for each in found if kind != "bindings" or b'"source": "y"' in each.read_bytes()
    )


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b'"body"') + 12] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("is_missing", [False, True], ids=["unreadable", "missing"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_document_means_what_the_table_says(
    whole: Path, tmp_path: Path, kind: str, *, is_missing: bool
) -> None:
    row = KINDS[kind]
    data = tmp_path / "data"
    shutil.copytree(whole, data, ignore=shutil.ignore_patterns("control.sock"))
    path = document(data, kind)
    if is_missing:
        path.unlink()
    else:
        flip(path)
    with ThreadedServer(data) as server:
        report = json.loads((data / "recovery.json").read_bytes())
        if is_missing and not row.is_missed:
            assert report["outcome"] == "clean"
            return
        assert report["outcome"] == "unopened"
        (found,) = report["metadata"]["unreadable"]
        assert found["path"] == str(path)
        assert found["effect"] == EFFECTS[kind]
        row.holds(server, data)
        if is_missing and kind == "vhosts":
            # It contained nothing but the name, so the start has written it again.
            assert ask(data, "status")["damaged"] == []
        else:
            (shown,) = ask(data, "status")["damaged"]
            assert (shown["kind"], path.stem in (shown["encoded_name"], "")) == (
                SINGULARS[kind],
                True,
            )
        for command, arguments in row.accept:
            ask(data, command, **arguments)
        if row.accept:
            assert eventually(lambda: ask(data, "status")["damaged"] == [])
    if row.accept or (is_missing and kind == "vhosts"):
        with ThreadedServer(data):
            report = json.loads((data / "recovery.json").read_bytes())
            assert (report["outcome"], report["metadata"]["unreadable"]) == ("clean", [])


OFFLINE: Final = ["policies", "users", "access", "topic_permissions", "vhost_limits"]


@pytest.mark.parametrize("is_missing", [False, True], ids=["unreadable", "missing"])
@pytest.mark.parametrize("kind", OFFLINE)
def test_without_a_server_the_tools_say_the_same_and_accept_the_loss(
    whole: Path, tmp_path: Path, kind: str, *, is_missing: bool
) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    shutil.copytree(whole, data, ignore=shutil.ignore_patterns("control.sock"))
    path = document(data, kind)
    if is_missing:
        path.unlink()
    else:
        flip(path)
    stored = load_stored_queues(data)
    (problem,) = check_directory(stored).problems
    assert problem.path == path
    assert problem.kind == ("missing-definition" if is_missing else "unreadable-definition")
    (limited,) = (each for each in stored.queues if each.name == "limited")
    assert limited.definition.policy.is_unknown == (kind == "policies")
    # A copy has lost no more and no less.
    back_up(data, copy, may_link=False, redo_number=lambda: None)
    (problem,) = check_directory(load_stored_queues(copy)).problems
    assert problem.path == copy / path.relative_to(data)
    assert main(["repair", "--yes", "--drop-definitions", "--storage-path", str(data)]) == 0
    assert check_directory(load_stored_queues(data)).problems == []
    with ThreadedServer(data) as server:
        assert json.loads((data / "recovery.json").read_bytes())["outcome"] == "clean"
        number = server.server.journal.last_number
        # The list of a running server is not that of the copy.
        ask(data, "users.add", name="another", tags=[], **HASHED)
        shutil.rmtree(copy)
        back_up(data, copy, may_link=False, redo_number=lambda: number)
        ask(data, "users.delete", name="another")
    assert check_directory(load_stored_queues(copy)).problems == []


def test_the_documents_have_the_same_table() -> None:
    """Each row of the page is a row here, and the other way round, in the same words."""
    rows = re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", GUARANTEES.read_text(), re.MULTILINE)
    assert dict(rows) == EFFECTS
    assert len(rows) == len(EFFECTS)
    assert KINDS.keys() == EFFECTS.keys() == SINGULARS.keys()
