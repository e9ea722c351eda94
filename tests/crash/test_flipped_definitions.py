"""Definitions with a flipped bit, or a value that no client could have declared."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.control.client import ask
from amqp_server.maintenance.directory_check import check_directory
from amqp_server.maintenance.stored_queues import load_stored_queues
from cli.main import main
from metadata.document import checksum
from metadata.document_files import DocumentFiles
from metadata.loading import load_documents
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

MESSAGES: Final = 5


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory: `q` bound to `x` with a key, `other` to `y`, five messages in `q`."""
    path = tmp_path_factory.mktemp("whole") / "data"
    with ThreadedServer(path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        for exchange, queue in (("x", "q"), ("y", "other")):
            client.call(Exchange.Declare(exchange=exchange, durable=True), Exchange.DeclareOk)
            client.declare(queue, arguments={"x-max-length": 1000})
            bind(client, exchange, queue)
        for number in range(MESSAGES):
            client.publish(b"%d" % number, "key", exchange="x")
            client.expect_confirmed()
    return path


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    path = tmp_path / "data"
    shutil.copytree(whole, path, ignore=shutil.ignore_patterns("control.sock"))
    return path


def bind(client: AmqpClient, exchange: str, queue: str) -> None:
    client.call(Queue.Bind(queue=queue, exchange=exchange, routing_key="key"), Queue.BindOk)


def document_of(data: Path, kind: str, **values: Any) -> Path:  # noqa: ANN401 - of a body
    """Return the one document of a kind whose name or body has these values."""
    (found,) = (
        path
        for path in sorted((data / "metadata" / kind / "%2f").glob("*.json"))
        for fields in [json.loads(path.read_bytes())]
        if values.items() <= {**fields["body"], "name": fields["name"]}.items()
    )
    return found


def edit(path: Path, change: Callable[[dict[str, Any]], None], *, is_signed: bool = False) -> None:
    """Change the fields of a document, and its checksum if it is to fit."""
    fields = json.loads(path.read_bytes())
    stored = fields.pop("crc32c")
    change(fields)
    path.write_text(json.dumps({**fields, "crc32c": checksum(fields) if is_signed else stored}))


def set_body(**values: Any) -> Callable[[dict[str, Any]], None]:  # noqa: ANN401 - of a body
    return lambda fields: fields["body"].update(values)


def set_arguments(**values: Any) -> Callable[[dict[str, Any]], None]:  # noqa: ANN401 - any
    return lambda fields: fields["body"]["arguments"].update(values)


def is_refused(client: AmqpClient, exchange: str, key: str = "key") -> bool:
    """Publish with confirms; return whether the answer is basic.nack."""
    client.publish(b"new", key, exchange=exchange)
    _, answer = client.receive()
    assert isinstance(answer, Basic.Ack | Basic.Nack)
    return isinstance(answer, Basic.Nack)


def expect_unopened(data: Path, name: str, reason: str) -> None:
    """Start; check that a queue is damaged, costs nothing, and that its files stay."""
    logs = sorted(path for path in (data / "logs").rglob("*.log"))
    with ThreadedServer(data) as server, connect(server.address) as client:
        (damaged,) = ask(data, "status")["damaged"]
        assert (damaged["kind"], damaged["encoded_name"]) == ("queue", name)
        assert reason in damaged["reason"]
        client.open_channel(confirms=True)
        assert is_refused(client, "x")
        assert not is_refused(client, "y")
        client.send(Queue.Declare(queue=name, durable=True))
        client.expect_channel_close(404)
    assert [path for path in logs if not path.exists()] == []
    assert json.loads((data / "recovery.json").read_bytes())["outcome"] == "unopened"


def expect_whole(data: Path) -> None:
    with ThreadedServer(data) as server, connect(server.address) as client:
        assert ask(data, "status")["damaged"] == []
        client.open_channel(confirms=True)
        assert client.ready_count("q") == MESSAGES
        assert not is_refused(client, "x")
        assert client.ready_count("q") == MESSAGES + 1


def test_a_flipped_digit_of_an_incarnation_loses_no_message(data: Path) -> None:
    """The log was removed as that of an unknown queue, with the outcome `clean`."""
    path = document_of(data, "queues", name="q")
    content = path.read_bytes()
    at = content.index(b'"incarnation": "') + len(b'"incarnation": "')
    flipped = bytearray(content)
    # The same kind of digit: `f` ^ 1 would be `g`.
    flipped[at] = ord(b"0") if content[at] != ord(b"0") else ord(b"1")
    UUID(json.loads(flipped)["body"]["incarnation"])
    path.write_bytes(flipped)
    expect_unopened(data, "q", "checksum does not fit")
    path.write_bytes(content)
    expect_whole(data)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"x-max-length": 1}, "checksum does not fit"),
        ({"x-max-length": 1001}, "checksum does not fit"),
    ],
)
def test_a_changed_argument_is_found(data: Path, values: dict[str, Any], reason: str) -> None:
    edit(document_of(data, "queues", name="q"), set_arguments(**values))
    expect_unopened(data, "q", reason)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"x-durability": "fsynk"}, "invalid arg 'x-durability'"),
        ({"x-compression": "zstf"}, "invalid arg 'x-compression'"),
        ({"x-segment-max-bytes": 1}, "invalid arg 'x-segment-max-bytes'"),
        ({"x-max-length": "many"}, "invalid arg 'x-max-length'"),
        ({"x-queue-type": "strean"}, "invalid arg 'x-queue-type'"),
        ({"x": {"kind": "?"}}, "'arguments'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_wrong_value_is_found_when_it_is_loaded(
    data: Path, capsys: pytest.CaptureFixture[str], values: dict[str, Any], reason: str
) -> None:
    """A start ended with a traceback; `verify` said clean, `repair` had nothing to mend."""
    path = document_of(data, "queues", name="q")
    edit(path, set_arguments(**values), is_signed=True)
    problems = check_directory(load_stored_queues(data)).problems
    (problem,) = (each for each in problems if each.kind == "unreadable-definition")
    assert problem.path == path
    assert reason in problem.text
    assert main(["repair", "--dry-run", "--storage-path", str(data)]) == 5
    assert reason in capsys.readouterr().out
    expect_unopened(data, "q", reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_body(incarnation="0B5F3A52-7E5C-4F1E-9D34-6F0D7F9D7F11"), "expected a UUID"),
        (set_body(incarnation=7), "'incarnation' is 7"),
        (set_body(auto_delete="no"), "'auto_delete' is 'no', expected a boolean"),
        (set_body(arguments=[]), "'arguments' is []"),
        (lambda fields: fields["body"].clear(), "is missing"),
    ],
    ids=["upper case", "number", "text", "array", "empty"],
)
def test_a_definition_of_another_form_is_found_when_it_is_loaded(
    data: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    edit(document_of(data, "queues", name="q"), change, is_signed=True)
    expect_unopened(data, "q", reason)


BINDINGS: Final[dict[str, Callable[[dict[str, Any]], None]]] = {
    "key": set_body(routing_key="kez"),
    "destination": set_body(destination="p"),
    "source": set_body(source="y"),
    "number": set_body(number=7),
    "arguments": set_body(arguments={"a": 1}),
    "a wrong type": set_body(routing_key=7),
}


@pytest.fixture
def client_of(data: Path) -> Iterator[Callable[[], AmqpClient]]:
    """Return what starts a server on the directory and connects to it, once."""
    servers: list[ThreadedServer] = []
    clients: list[AmqpClient] = []

    def start() -> AmqpClient:
        servers.append(ThreadedServer(data).__enter__())
        clients.append(connect(servers[0].address))
        clients[0].open_channel(confirms=True)
        return clients[0]

    yield start
    for client in clients:
        client.close()
    for server in servers:
        server.__exit__(None, None, None)


@pytest.mark.parametrize("is_signed", [False, True])
@pytest.mark.parametrize("change", BINDINGS.values(), ids=BINDINGS.keys())
def test_only_the_exchange_of_a_damaged_binding_refuses(
    data: Path,
    client_of: Callable[[], AmqpClient],
    change: Callable[[dict[str, Any]], None],
    *,
    is_signed: bool,
) -> None:
    path = document_of(data, "bindings", source="x")
    edit(path, change, is_signed=is_signed)
    content = path.read_bytes()
    client = client_of()
    if is_signed and json.loads(content)["body"].get("number") == 7:
        # It is the same binding, and says so: only its place among others is another.
        assert not is_refused(client, "x")
        return
    # Whatever the key: it is unknown which messages the binding would have taken.
    assert is_refused(client, "x")
    assert is_refused(client, "x", "something else")
    assert not is_refused(client, "y")
    assert not is_refused(client, "", "other")
    (damaged,) = ask(data, "status")["damaged"]
    assert (damaged["kind"], damaged["encoded_name"]) == ("binding", path.stem)
    assert "exchange 'x' refuses publishes" in damaged["reason"]
    assert path.read_bytes() == content


def test_every_named_exchange_refuses_while_the_source_of_a_binding_is_unknown(
    data: Path, client_of: Callable[[], AmqpClient]
) -> None:
    document_of(data, "bindings", source="x").write_bytes(b"{")
    client = client_of()
    assert is_refused(client, "x")
    assert is_refused(client, "y")
    assert is_refused(client, "amq.direct")
    assert not is_refused(client, "", "q")


def test_binding_again_repairs_a_damaged_binding(
    data: Path, client_of: Callable[[], AmqpClient]
) -> None:
    path = document_of(data, "bindings", source="x")
    content = path.read_bytes()
    path.write_bytes(b"{")
    client = client_of()
    assert is_refused(client, "y")
    bind(client, "x", "q")
    assert not is_refused(client, "x")
    assert not is_refused(client, "y")
    assert client.ready_count("q") == MESSAGES + 1
    assert ask(data, "status")["damaged"] == []
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "give_up",
    [Queue.Unbind(queue="q", exchange="x", routing_key="key"), Exchange.Delete(exchange="x")],
    ids=["unbind", "delete the exchange"],
)
def test_a_damaged_binding_can_be_deleted(
    data: Path, client_of: Callable[[], AmqpClient], give_up: Queue.Unbind | Exchange.Delete
) -> None:
    path = document_of(data, "bindings", source="x")
    edit(path, set_body(number=9))
    client = client_of()
    if isinstance(give_up, Queue.Unbind):
        client.call(give_up, Queue.UnbindOk)
    else:
        client.call(give_up, Exchange.DeleteOk)
        client.call(Exchange.Declare(exchange="x", durable=True), Exchange.DeclareOk)
    assert not path.exists()
    assert not is_refused(client, "x")
    assert client.ready_count("q") == MESSAGES


def test_an_edited_definition_is_accepted_by_a_command(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = document_of(data, "queues", name="q")
    edit(path, set_arguments(**{"x-max-length": 1001}))
    edited = path.read_bytes()
    command = ["repair", "--storage-path", str(data), "--json", "--accept-definition", str(path)]
    assert main(command) == 0
    (accepted,) = json.loads(capsys.readouterr().out)["accepted"]
    assert Path(accepted["copy"]).read_bytes() == edited
    assert json.loads(path.read_bytes())["body"]["arguments"] == {"x-max-length": 1001}
    expect_whole(data)
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["accepted"][0]["copy"] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_arguments(**{"x-max-length": "many"}), "invalid arg 'x-max-length'"),
        (lambda fields: fields.update(name="p"), "belongs in"),
        (lambda fields: fields.update(schema=9), "newer program"),
        (set_body(incarnation="0b5f3a52-7e5c-4f1e-9d34-6f0d7f9d7f11"), "has no log; the logs of"),
    ],
    ids=["value", "place", "schema", "incarnation"],
)
def test_a_definition_that_cannot_be_accepted_is_refused_and_unchanged(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], None],
    reason: str,
) -> None:
    path = document_of(data, "queues", name="q")
    edit(path, change)
    content = path.read_bytes()
    command = ["repair", "--storage-path", str(data), "--accept-definition", str(path)]
    assert main(command) == 2
    assert reason in capsys.readouterr().err
    assert path.read_bytes() == content
    assert not (data / "quarantine").exists()


def test_every_byte_of_every_definition_is_found_or_harmless(data: Path) -> None:
    """Checked without a server: each start reads its documents in this way."""
    root, files = data / "metadata", DocumentFiles()
    before = load_documents(root, files).documents
    for path in sorted(root.rglob("*.json")):
        content = path.read_bytes()
        for at in range(len(content)):
            flipped = bytearray(content)
            flipped[at] ^= 1 << at % 8
            path.write_bytes(flipped)
            after = load_documents(root, files)
            unread = {each.path for each in after.unreadable}
            assert after.documents == before or unread == {path}, at
        path.write_bytes(content)
