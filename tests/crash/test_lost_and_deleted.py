"""A start removes what is marked as deleted; what is only missing counts as lost."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.control.client import ask
from amqp_server.maintenance.backup import back_up
from amqp_server.maintenance.directory_check import check_directory
from amqp_server.maintenance.stored_queues import load_stored_queues
from amqp_server.offline_recovery import recover_directory
from metadata.document import decode_document
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

DELAYED: Any = {"x-delayed-type": "direct"}
INCARNATION = "0e4f8a6c-7c1c-4c5e-9d55-6f1d6a7b8c9d"


def fill(client: AmqpClient) -> None:
    """Make queues with one confirmed message each, exchanges, and bindings between them."""
    client.open_channel(confirms=True)
    for exchange in ("x", "y"):
        client.call(Exchange.Declare(exchange=exchange, durable=True), Exchange.DeclareOk)
    client.call(Exchange.Bind(destination="y", source="x", routing_key="k"), Exchange.BindOk)
    for queue in ("Orders/1", "other"):
        client.declare(queue)
        client.publish(b"kept", queue)
        client.expect_confirmed()
    client.call(Queue.Bind(queue="other", exchange="y", routing_key="k"), Queue.BindOk)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory with the same in two virtual hosts."""
    path = tmp_path_factory.mktemp("whole") / "data"
    with ThreadedServer(path) as server:
        ask(path, "vhosts.add", name="prod")
        for vhost in ("/", "prod"):
            with connect(server.address, vhost=vhost) as client:
                fill(client)
    return path


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of it."""
    shutil.copytree(whole, tmp_path / "data", ignore=shutil.ignore_patterns("control.sock"))
    return tmp_path / "data"


def files(data: Path) -> dict[Path, bytes]:
    """Return the files of all definitions and logs; a server may remove some in the meantime."""
    found = {}
    for path in [*paths_below(data / "metadata"), *paths_below(data / "logs")]:
        with suppress(FileNotFoundError, IsADirectoryError):
            found[path] = path.read_bytes()
    return found


def paths_below(directory: Path) -> list[Path]:
    """Return what is below a directory; a server may be removing some of it at the same time."""
    return sorted(
        Path(parent, name)
        for parent, directories, names in os.walk(directory)
        for name in (*directories, *names)
    )


def log_of(data: Path, queue: str, vhost: str = "%2f") -> Path:
    (log,) = (data / "logs" / vhost / queue).iterdir()
    return log


def report_of(data: Path) -> Any:  # noqa: ANN401 - of JSON
    return json.loads((data / "recovery.json").read_bytes())


def unreadable(data: Path) -> list[str]:
    """Return what the last start missed, relative to the data directory."""
    return [
        str(Path(each["path"]).relative_to(data))
        for each in report_of(data)["metadata"]["unreadable"]
    ]


# What is only absent was lost


def test_a_virtual_host_without_its_document_is_recovered_and_reported(data: Path) -> None:
    """Every queue and log of it was deleted, with outcome clean."""
    document = data / "metadata" / "vhosts" / "%" / "prod.json"
    document.unlink()
    before = files(data)
    with ThreadedServer(data) as server, connect(server.address, vhost="prod") as client:
        assert report_of(data)["outcome"] == "unopened"
        assert unreadable(data) == ["metadata/vhosts/%/prod.json"]
        client.open_channel()
        assert client.ready_count("Orders/1") == client.ready_count("other") == 1
    assert before.items() <= files(data).items()
    assert decode_document(document.read_bytes()).name == "prod"
    with ThreadedServer(data) as server, connect(server.address, vhost="prod") as client:
        assert report_of(data)["outcome"] == "clean"


def test_a_virtual_host_of_which_only_a_log_is_left_is_recovered(data: Path) -> None:
    for kind in ("vhosts/%/prod.json", "queues/prod", "exchanges/prod", "bindings/prod"):
        path = data / "metadata" / kind
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    logs = {path: content for path, content in files(data).items() if "logs" in path.parts}
    with ThreadedServer(data) as server, connect(server.address, vhost="prod") as client:
        client.open_channel()
        client.send(Queue.Declare(queue="Orders/1", durable=True))
        client.expect_channel_close(404)
    assert logs.items() <= files(data).items()


def test_a_log_proves_its_queue(data: Path) -> None:
    """The log was removed as that of an unknown queue."""
    (data / "metadata" / "queues" / "%2f" / "%4frders%2f1.json").unlink()
    before = files(data)
    with ThreadedServer(data) as server, connect(server.address) as client:
        assert unreadable(data) == ["metadata/queues/%2f/%4frders%2f1.json"]
        assert report_of(data)["outcome"] == "unopened"
        (missing,) = report_of(data)["metadata"]["unreadable"]
        assert "queue 'Orders/1' has a log" in missing["reason"]
        client.open_channel()
        client.send(Queue.Declare(queue="Orders/1", durable=True))
        client.expect_channel_close(404)
        client.open_channel(confirms=True)
        client.publish(b"refused", "Orders/1")
        client.expect(Basic.Nack)
        assert client.ready_count("other") == 1
    assert files(data) == before


def test_a_restored_definition_has_its_messages_and_its_settled_ones(data: Path) -> None:
    document = data / "metadata" / "queues" / "%2f" / "other.json"
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"second", "other")
        client.expect_confirmed()
        assert client.get("other") is not None
    content = document.read_bytes()
    document.unlink()
    with ThreadedServer(data):
        pass
    document.write_bytes(content)
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        assert report_of(data)["outcome"] == "clean"
        assert client.ready_count("other") == 1


@pytest.mark.parametrize("exchange", ["x", "y"], ids=["source", "source and destination"])
def test_a_binding_proves_its_exchanges(data: Path, exchange: str) -> None:
    """The bindings of the exchange were removed for good."""
    document = data / "metadata" / "exchanges" / "%2f" / f"{exchange}.json"
    content = document.read_bytes()
    document.unlink()
    before = files(data)
    with ThreadedServer(data) as server, connect(server.address) as client:
        assert unreadable(data) == [f"metadata/exchanges/%2f/{exchange}.json"]
        client.open_channel()
        client.send(Exchange.Declare(exchange=exchange, durable=True))
        client.expect_channel_close(404)
    assert files(data) == before
    document.write_bytes(content)
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"routed", "k", exchange="x", mandatory=True)
        client.expect_confirmed()
        assert client.ready_count("other") == 2


def test_a_lost_exchange_can_be_deleted(data: Path) -> None:
    (data / "metadata" / "exchanges" / "%2f" / "y.json").unlink()
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        client.call(Exchange.Delete(exchange="y"), Exchange.DeleteOk)
        client.call(Exchange.Declare(exchange="y", durable=True), Exchange.DeclareOk)
    with ThreadedServer(data) as server:
        assert report_of(data)["outcome"] == "clean"
        exchanges = server.server.broker.vhosts["/"].exchanges
        assert not server.call(lambda: [*exchanges["x"].bindings, *exchanges["y"].bindings])


def test_a_lost_queue_can_be_deleted(data: Path) -> None:
    (data / "metadata" / "queues" / "%2f" / "other.json").unlink()
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Delete(queue="other"), Queue.DeleteOk)
        assert (log_of(data, "other") / "deleted").exists()
    with ThreadedServer(data) as server:
        assert report_of(data)["outcome"] == "clean"
        assert report_of(data)["removed_logs"] == 1
        assert not (data / "logs" / "%2f" / "other").exists()


# What is marked goes


def test_a_mark_finishes_the_deletion_of_the_queue_and_of_its_bindings(data: Path) -> None:
    """As a crash leaves it that comes just behind the sync of the mark."""
    (log_of(data, "other") / "deleted").touch()
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        assert report_of(data)["outcome"] == "clean"
        client.send(Queue.Declare(queue="other", passive=True))
        client.expect_channel_close(404)
    assert not (data / "logs" / "%2f" / "other").exists()
    assert not (data / "metadata" / "queues" / "%2f" / "other.json").exists()
    assert len(list((data / "metadata" / "bindings" / "%2f").iterdir())) == 1


@pytest.mark.parametrize("how", ["delete", "no consumer left", "vhost", "exchange"])
def test_a_deletion_leaves_nothing_behind(data: Path, how: str) -> None:
    """Each deleted name left an empty directory."""
    with ThreadedServer(data) as server:
        before = files(data)
        names = paths_below(data / "logs")
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            if how == "vhost":
                ask(data, "vhosts.add", name="gone")
                with connect(server.address, vhost="gone") as gone:
                    fill(gone)
                ask(data, "vhosts.delete", name="gone")
            elif how == "exchange":
                client.call(
                    Exchange.Declare(
                        0, "later", "x-delayed-message", False, True, arguments=DELAYED
                    ),
                    Exchange.DeclareOk,
                )
                client.call(Queue.Bind(queue="other", exchange="later"), Queue.BindOk)
                client.call(Exchange.Delete(exchange="later"), Exchange.DeleteOk)
            else:
                client.call(
                    Queue.Declare(queue="gone", durable=True, auto_delete=how != "delete"),
                    Queue.DeclareOk,
                )
                client.call(Queue.Bind(queue="gone", exchange="x"), Queue.BindOk)
                client.publish(b"gone", "gone")
                client.expect_confirmed()
                if how == "delete":
                    client.call(Queue.Delete(queue="gone"), Queue.DeleteOk)
                else:
                    client.call(Basic.Consume(queue="gone", consumer_tag="c"), Basic.ConsumeOk)
                    client.expect_delivery()
                    client.call(Basic.Cancel(consumer_tag="c"), Basic.CancelOk)
        server.wait_until(lambda: files(data).keys() == before.keys())
        server.wait_until(lambda: paths_below(data / "logs") == names)
    with ThreadedServer(data):
        assert report_of(data)["outcome"] == "clean"
        assert report_of(data)["removed_logs"] == 0


def test_an_interrupted_deletion_of_a_vhost_is_finished(data: Path) -> None:
    document = data / "metadata" / "vhosts" / "%" / "prod.json"
    with ThreadedServer(data) as server:
        server.run(lambda: server.server.broker.definitions.remove_vhost("prod"))
        server.abandon()
    assert decode_document(document.read_bytes()).body == {"deleted": True}
    with ThreadedServer(data):
        assert report_of(data)["outcome"] == "clean"
        assert report_of(data)["removed_logs"] == 2
        assert "prod" not in [each["name"] for each in ask(data, "vhosts.list")]
    assert not document.exists()
    assert not (data / "logs" / "prod").exists()
    assert not list(data.glob("metadata/*/prod"))


# What no restart survives


def test_a_start_removes_transient_and_exclusive_queues(data: Path) -> None:
    with (
        ThreadedServer(data, ring_size=1024) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("transient", durable=False)
        client.declare("mine", exclusive=True)
        for number in range(1024):
            client.publish(b"%d" % number, "transient")
            client.publish(b"%d" % number, "mine")
        client.expect_confirmed()
        server.wait_until(lambda: len(list(data.glob("spill/%2f/*/*/*.log"))) == 2)
        assert not list(data.glob("logs/%2f/transient*"))
        # As a kill leaves it: a clean stop removes it.
        shutil.copytree(data / "spill", data.parent / "spill")
    shutil.copytree(data.parent / "spill", data / "spill", dirs_exist_ok=True)
    note = data / "spill" / "%2f" / "note.txt"
    note.write_text("mine")
    outside = data.parent / "outside"
    shutil.copytree(log_of(data, "other"), outside)
    (data / "spill" / "%2f" / "transient" / INCARNATION).symlink_to(outside)
    with ThreadedServer(data):
        assert report_of(data)["outcome"] in ("clean", "torn")
        assert len(report_of(data)["strangers"]) == 2
    assert [path.name for path in data.glob("spill/*/*/*")] == [INCARNATION]
    assert note.exists()
    assert any(outside.iterdir())


# What is not ours


def test_a_directory_that_is_no_log_is_reported_and_kept(data: Path) -> None:
    """All of it was removed, even what links lead to."""
    queue = data / "logs" / "%2f" / "other"
    outside = data.parent / "outside"
    shutil.copytree(log_of(data, "other"), outside / INCARNATION)
    foreign_paths = [
        queue / (log_of(data, "other").name + ".bak"),
        queue / "notes",
        data / "logs" / "lost+found",
        data / "logs" / "%2f" / "LOST",
    ]
    for path in foreign_paths:
        (path / "a" / "b").mkdir(parents=True)
        (path / "a" / "b" / "file").write_text("mine")
    # A link to a log, one to a queue's logs, and the segments of another queue.
    (queue / INCARNATION).symlink_to(outside / INCARNATION)
    (data / "logs" / "%2f" / "linked").symlink_to(outside)
    foreign = data / "logs" / "%2f" / "foreign" / INCARNATION
    shutil.copytree(log_of(data, "%4frders%2f1"), foreign)
    foreign_paths += [queue / INCARNATION, data / "logs" / "%2f" / "linked", foreign]
    before = files(data)
    content = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    for _ in range(2):
        with ThreadedServer(data) as server, connect(server.address) as client:
            client.open_channel()
            assert client.ready_count("other") == 1
            assert report_of(data)["outcome"] == "clean"
            assert sorted(report_of(data)["strangers"]) == sorted(map(str, foreign_paths))
        assert files(data) == before
        assert {path: path.read_bytes() for path in content} == content


# A directory from before there were marks


def test_an_upgrade_sets_logs_without_an_owner_aside_and_reports_them_once(data: Path) -> None:
    """Deletions left such logs and bindings then, and so did transient queues."""
    (data / "FORMAT").write_text("1\n")
    lose_queue(data)
    (data / "metadata" / "vhosts" / "%" / "prod.json").unlink()
    before = files(data)
    check = check_directory(load_stored_queues(data))
    assert {each.kind for each in check.all_problems()} == {"orphaned-log"}
    assert len(recover_directory(data, is_dry_run=True).quarantined) == len(check.all_problems())
    assert files(data) == before
    with ThreadedServer(data) as server, connect(server.address) as client:
        client.open_channel()
        assert client.ready_count("Orders/1") == 1
        client.declare("other")
        report = report_of(data)
        assert report["outcome"] == "clean"
        assert report["quarantined_count"] == len(report["quarantined"]) > 5
        assert "prod" not in [each["name"] for each in ask(data, "vhosts.list")]
    moved = {path.relative_to(data) for path in before if not path.exists()}
    (quarantine,) = (data / "quarantine").iterdir()
    assert moved == {
        path.relative_to(quarantine) for path in quarantine.rglob("*") if path.is_file()
    }
    assert {path.parts[0] for path in moved} == {"metadata", "logs"}
    with ThreadedServer(data):
        assert report_of(data)["outcome"] == "clean"
        assert report_of(data)["quarantined"] == []


# The tools agree with the start


def test_a_backup_contains_the_logs_that_a_start_would_use_and_keep(data: Path) -> None:
    lose_queue(data)
    add_foreign_directory(data)
    kept = log_of(data, "%4frders%2f1")
    shutil.copytree(kept, kept.with_name(INCARNATION))
    (kept.with_name(INCARNATION) / "deleted").touch()
    target = data.parent / "copy"
    back_up(data, target, may_link=False, redo_number=lambda: None)
    logs = {path.relative_to(target).parts[1:3] for path in target.glob("logs/*/*/*")}
    assert logs == {
        (vhost, queue) for vhost in ("%2f", "prod") for queue in ("%4frders%2f1", "other")
    }
    assert not (target / kept.with_name(INCARNATION).relative_to(data)).exists()
    assert not (target / "logs" / "%2f" / "other" / "notes").exists()
    assert recover_directory(target, is_dry_run=True).outcome.value == "unopened"


def test_a_queue_that_is_deleted_during_a_backup_leaves_no_damage_in_it(data: Path) -> None:
    """Its log was in the copy without its definition."""
    calls = 0

    def delete_one(done: int, of: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            with connect(server.address) as client:
                client.open_channel()
                client.call(Queue.Delete(queue="other"), Queue.DeleteOk)

    with ThreadedServer(data) as server:
        number = server.server.journal.last_number
        back_up(
            data,
            data.parent / "copy",
            may_link=False,
            redo_number=lambda: number,
            on_log=delete_one,
        )
    assert calls >= 3
    assert recover_directory(data.parent / "copy", is_dry_run=True).outcome.value in (
        "clean",
        "torn",
    )


def spoil_nothing(data: Path) -> None:
    """Leave it as it is."""


def lose_queue(data: Path) -> None:
    (data / "metadata" / "queues" / "%2f" / "other.json").unlink()


def lose_exchange(data: Path) -> None:
    (data / "metadata" / "exchanges" / "%2f" / "y.json").unlink()


def lose_vhost(data: Path) -> None:
    (data / "metadata" / "vhosts" / "%" / "prod.json").unlink()


def mark_queue(data: Path) -> None:
    (log_of(data, "other") / "deleted").touch()


def add_foreign_directory(data: Path) -> None:
    (data / "logs" / "%2f" / "other" / "notes").mkdir()


@pytest.mark.parametrize(
    ("spoil", "problem", "outcome"),
    [
        (spoil_nothing, None, "clean"),
        (lose_queue, "missing-definition", "unopened"),
        (lose_exchange, "missing-definition", "unopened"),
        (lose_vhost, "missing-definition", "unopened"),
        (mark_queue, "deleted-log", "clean"),
        (add_foreign_directory, "not-a-log", "clean"),
    ],
)
def test_a_check_and_a_dry_run_say_what_the_start_does(
    data: Path, spoil: Callable[[Path], None], problem: str | None, outcome: str
) -> None:
    spoil(data)
    before = files(data)
    check = check_directory(load_stored_queues(data))
    assert [each.kind for each in check.all_problems()] == ([problem] if problem else [])
    dry = recover_directory(data, is_dry_run=True)
    assert dry.outcome.value == outcome
    assert files(data) == before
    assert recover_directory(data, is_dry_run=False).outcome.value == outcome
    kept = files(data)
    gone = [path for path in before if path not in kept]
    assert bool(gone) == (spoil is mark_queue)
