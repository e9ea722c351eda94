"""Files of RabbitMQ are taken unchanged, and ours go through a real RabbitMQ 3.10 and back."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.rabbitmq import is_rabbitmq_installed
from cli.main import main
from tests.definitions.rabbitmq_node import rabbit_node
from tests.servers import RunningServer

HERE = Path(__file__).parent
SECTIONS = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)
needs_rabbitmq = pytest.mark.skipif(not is_rabbitmq_installed(), reason="RabbitMQ is not installed")


def imported(server: RunningServer, path: Path, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401
    storage = ["--storage-path", str(server.storage_path)]
    code = main(["definitions", "import", str(path), "--json", *storage])
    output = capsys.readouterr()
    assert (code, output.err) == (0, "")
    return json.loads(output.out)


def exported(
    server: RunningServer, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    storage = ["--storage-path", str(server.storage_path)]
    assert main(["definitions", "export", *options, *storage]) == 0
    definitions: dict[str, Any] = json.loads(capsys.readouterr().out)
    return definitions


def alike(definitions: dict[str, Any]) -> dict[str, list[str]]:
    """Return the sections in one order, without what only one version writes."""
    found: dict[str, list[str]] = {}
    for section in SECTIONS:
        entries = [dict(entry) for entry in definitions[section]]
        for entry in entries:
            if section == "exchanges":
                entry.setdefault("internal", False)
            elif section == "vhosts":
                entry["limits"] = dict(entry.get("limits") or {})
                metadata = dict(entry["metadata"])
                if isinstance(metadata["tags"], str):
                    # RabbitMQ itself writes a list when it has read the text.
                    metadata["tags"] = metadata["tags"].split(",")
                entry["metadata"] = metadata
            elif section == "parameters" and isinstance(entry["value"].get("definition"), list):
                definition = dict(entry["value"]["definition"])
                entry["value"] = {**entry["value"], "definition": definition}
        found[section] = sorted(json.dumps(entry, sort_keys=True) for entry in entries)
    return found


@pytest.mark.parametrize("name", ["rabbitmq-3.10.json", "rabbitmq-4.json"])
def test_an_export_of_rabbitmq_is_taken_unchanged(
    server: RunningServer, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    report = imported(server, HERE / name, capsys)
    assert report["different"] == []
    given = json.loads((HERE / name).read_text())
    found = exported(server, capsys)
    for section in ("queues", "exchanges", "bindings", "policies", "permissions"):
        names = {json.dumps(entry, sort_keys=True) for entry in found[section]}
        for entry in given[section]:
            owner = entry.get("name", entry.get("destination", ""))
            if owner.startswith("amq.gen") or owner == "mine":
                continue
            if section == "exchanges":
                entry.setdefault("internal", False)
            assert json.dumps(entry, sort_keys=True) in names
    again = imported(server, HERE / name, capsys)
    assert not any(counts["created"] for counts in again["sections"].values())
    assert not any(counts["changed"] for counts in again["sections"].values())


QUEUE: dict[str, Any] = {"durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE: dict[str, Any] = {"type": "topic", "internal": False, **QUEUE}
TO_Q: dict[str, Any] = {"destination_type": "queue", "destination": "q", "arguments": {}}
TWICE = "a queue and an exchange twice"
UNUSUAL: dict[str, tuple[bool, dict[str, list[dict[str, Any]]]]] = {
    "an exchange with a reserved name": (
        True,
        {
            "exchanges": [{"name": "amq.orders", **EXCHANGE}],
            "queues": [{"name": "q", **QUEUE}],
            "bindings": [{"source": "amq.orders", "routing_key": "k", **TO_Q}],
        },
    ),
    "bindings of the exchange of the log": (
        True,
        {
            "queues": [{"name": "q", **QUEUE}],
            "bindings": [
                {"source": "amq.rabbitmq.log", "routing_key": "#", **TO_Q},
                {"source": "amq.topic", "routing_key": "k", **TO_Q},
            ],
        },
    ),
    "a queue and an exchange with a reserved name": (
        True,
        {
            "exchanges": [{"name": "amq.x", **EXCHANGE}],
            "queues": [{"name": "amq.q", **QUEUE}],
        },
    ),
    TWICE: (
        True,
        {
            "exchanges": [{"name": "x", **EXCHANGE}, {"name": "x", **EXCHANGE, "type": "fanout"}],
            "queues": [{"name": "q", **QUEUE}, {"name": "q", **QUEUE, "auto_delete": True}],
        },
    ),
    "as many queues as the limit": (True, {"queues": [{"name": f"q{n}", **QUEUE} for n in "12"]}),
    "more queues than the limit": (False, {"queues": [{"name": f"q{n}", **QUEUE} for n in "123"]}),
    "a policy without a name": (
        False,
        {"policies": [{"pattern": "", "definition": {"max-length": 1}, "apply-to": "queues"}]},
    ),
    "a stream with a length limit": (
        False,
        {
            "queues": [
                {"name": "q", **QUEUE, "arguments": {"x-queue-type": "stream", "x-max-length": 7}}
            ]
        },
    ),
}
"""Files of one virtual host with a limit of two queues, and whether RabbitMQ takes them."""
# RabbitMQ imports side by side: which of two entries counts is chance there.
CHANCE = f"v{list(UNUSUAL).index(TWICE)}"
MADE_BY_RABBITMQ = HERE / "unusual-files.json"
"""What RabbitMQ makes of them; `make check-tools` asks it again."""


@pytest.fixture
def unusual_files(tmp_path: Path) -> dict[str, tuple[bool, Path]]:
    """Write each file for a virtual host of its own; return it with whether it is taken."""
    return write_unusual_files(tmp_path)


def write_unusual_files(directory: Path) -> dict[str, tuple[bool, Path]]:
    """Write each file for a virtual host of its own; return it with whether it is taken."""
    files = {}
    for number, (name, (is_taken, sections)) in enumerate(UNUSUAL.items()):
        entries = {
            section: [{"vhost": f"v{number}", **entry} for entry in found]
            for section, found in sections.items()
        }
        path = directory / f"{number}.json"
        path.write_text(json.dumps(entries))
        files[name] = (is_taken, path)
    return files


def made(definitions: dict[str, Any], but_for: str = "") -> dict[str, list[str]]:
    """Return the objects in virtual hosts but for one, without what only one version writes."""
    sections = ("policies", "queues", "exchanges", "bindings")
    kept = {
        section: [each for each in definitions[section] if each["vhost"] != but_for]
        for section in sections
    }
    found = alike({**definitions, "vhosts": [], **kept})
    return {section: found[section] for section in sections}


def test_unusual_files_do_in_the_dry_run_what_they_do(
    server: RunningServer,
    capsys: pytest.CaptureFixture[str],
    unusual_files: dict[str, tuple[bool, Path]],
) -> None:
    storage = ["--storage-path", str(server.storage_path)]
    for number, (name, (is_taken, path)) in enumerate(unusual_files.items()):
        assert main(["vhosts", "add", f"v{number}", *storage]) == 0
        assert main(["limits", "set", "--vhost", f"v{number}", "max-queues=2", *storage]) == 0
        capsys.readouterr()
        before = made(exported(server, capsys))
        said = []
        for options in (["--dry-run"], []):
            code = main(["definitions", "import", str(path), "--json", *options, *storage])
            output = capsys.readouterr()
            assert (code == 0) is is_taken, f"{name}: {output.err}"
            said.append((output.out, output.err))
        assert said[0] == said[1], name
        if not is_taken:
            assert made(exported(server, capsys)) == before, name


def test_unusual_files_make_what_they_make_in_rabbitmq(
    server: RunningServer,
    capsys: pytest.CaptureFixture[str],
    unusual_files: dict[str, tuple[bool, Path]],
) -> None:
    storage = ["--storage-path", str(server.storage_path)]
    for number, (is_taken, path) in enumerate(unusual_files.values()):
        main(["vhosts", "add", f"v{number}", *storage])
        main(["limits", "set", "--vhost", f"v{number}", "max-queues=2", *storage])
        assert (main(["definitions", "import", str(path), *storage]) == 0) is is_taken
    capsys.readouterr()
    assert made(exported(server, capsys), CHANCE) == json.loads(MADE_BY_RABBITMQ.read_text())


def test_only_the_queue_of_a_client_is_left_out_of_a_file_of_rabbitmq(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    report = imported(server, HERE / "rabbitmq-3.10.json", capsys)
    assert {line.partition("[")[0] for line in report["skipped"]} == {"queues", "bindings"}
    assert len(report["skipped"]) == 3


@needs_rabbitmq
@pytest.mark.interop
def test_a_rabbitmq_starts_with_what_we_export_of_its_definitions(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = json.loads((HERE / "rabbitmq-3.10.json").read_text())
    imported(server, HERE / "rabbitmq-3.10.json", capsys)
    # The hash of this password is one that RabbitMQ 3.10 cannot read.
    (tmp_path / "password").write_text("test12")
    storage = ["--storage-path", str(server.storage_path)]
    password = ["--password-file", str(tmp_path / "password")]
    assert main(["users", "add", "of-ours", *password, *storage]) == 0
    capsys.readouterr()
    nameless: dict[str, Any] = {"limits": {}, "password_hash": "", "tags": []}
    algorithm = first["users"][0]["hashing_algorithm"]
    first["users"].append({"name": "of-ours", "hashing_algorithm": algorithm, **nameless})
    back = tmp_path / "back.json"
    back.write_text(json.dumps(exported(server, capsys, "--for", "rabbitmq")))
    directory = tmp_path / "rabbitmq"
    directory.mkdir()
    with rabbit_node(directory, settings=f"load_definitions = {back}\n") as node:
        second = node.export()
    assert alike(second) == but_for_gone_queues(alike(first))


def but_for_gone_queues(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Leave out what belonged to clients that have gone: exclusive queues, and their bindings."""
    return {
        section: [each for each in entries if '"mine"' not in each and '"amq.gen' not in each]
        for section, entries in found.items()
    }
