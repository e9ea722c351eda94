"""A copy is of one moment: whatever the server does between any two of its steps."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pamqp.commands import Tx

from amqp_server.maintenance import backup
from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.data_directories import take
from tests.threaded_server import ThreadedServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    """A server that writes checkpoints only when it is told to."""
    with ThreadedServer(tmp_path / "data", offset_checkpoint_interval_seconds=0) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    """A client in confirm mode, and the queues `a` and `b`, which are copied in this order."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in ("a", "b"):
            client.declare(queue)
            publish(client, queue, b"before")
        yield client


def publish(client: AmqpClient, queue: str, body: bytes) -> None:
    client.publish(body, queue)
    client.expect_confirmed()


def checkpoint(server: ThreadedServer) -> None:
    server.run(server.server.checkpointer.write_round)


def back_up(
    server: ThreadedServer,
    storage: Path,
    target: Path,
    on_log: Callable[[int], None] = lambda _: None,
) -> None:
    """Copy, and call something behind each log; it hears how many are copied."""
    journal = server.server.committer._journal
    backup.back_up(
        storage,
        target,
        may_link=True,
        redo_number=lambda: server.call(lambda: journal.last_number),
        on_log=lambda done, _: on_log(done),
    )


def is_sound(target: Path) -> bool:
    """Tell whether nothing in a copy is damaged or lost."""
    return not any(
        main([command, "--storage-path", str(target)]) for command in ("verify", "recover")
    )


def test_no_end_speaks_of_what_is_appended_behind_the_copy_of_its_segment(
    server: ThreadedServer, client: AmqpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = backup._Copy._copy
    appended = []

    def copy_and_append(self: backup._Copy, source: Path, target: Path) -> None:
        copy(self, source, target)
        if source.parent.parent.name == "a":
            publish(client, "a", b"during")
            appended.append(source.suffix)

    monkeypatch.setattr(backup._Copy, "_copy", copy_and_append)
    back_up(server, tmp_path / "data", tmp_path / "copy")
    assert ".log" in appended
    assert is_sound(tmp_path / "copy")


def test_no_checkpoint_speaks_of_what_comes_behind_the_copy_of_its_log(
    server: ThreadedServer, client: AmqpClient, tmp_path: Path
) -> None:
    def settle(_: int) -> None:
        for queue in ("a", "b"):
            publish(client, queue, b"during")
            while client.get(queue) is not None:
                pass
        checkpoint(server)

    back_up(server, tmp_path / "data", tmp_path / "copy", settle)
    assert is_sound(tmp_path / "copy")
    assert take(tmp_path / "copy", "a") == [b"before"]


def transact(server: ThreadedServer, *bodies: bytes) -> None:
    """Put messages into both queues, in one transaction."""
    with connect(server.address) as client:
        client.open_channel()
        client.call(Tx.Select(), Tx.SelectOk)
        for queue in ("a", "b"):
            for body in bodies:
                client.publish(body, queue)
        client.call(Tx.Commit(), Tx.CommitOk)
    queues = server.server.broker.vhosts["/"].queues
    server.wait_until(lambda: all(queue.is_synced for queue in queues.values()))


def journal_files(storage: Path) -> list[Path]:
    return list((storage / "transactions").glob("*.log"))


def test_a_file_of_the_journal_that_was_there_at_first_is_copied_though_it_goes_with_the_first_log(
    server: ThreadedServer, client: AmqpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy_log = backup._Copy._copy_log
    transact(server, b"first")
    assert len(journal_files(tmp_path / "data")) == 1

    def copy_and_commit(self: backup._Copy, source: Path, target: Path) -> None:
        copy_log(self, source, target)
        if source.parent.name == "a":
            transact(server, b"second")
            assert len(journal_files(tmp_path / "data")) == 1, "it is the same file"
            checkpoint(server)
            assert journal_files(tmp_path / "data") == []

    monkeypatch.setattr(backup._Copy, "_copy_log", copy_and_commit)
    back_up(server, tmp_path / "data", tmp_path / "copy")
    assert take(tmp_path / "copy", "a") == [b"before", b"first", b"second"]
    assert take(tmp_path / "copy", "b") == [b"before", b"first", b"second"]


def test_a_file_of_the_journal_that_comes_and_goes_between_two_logs_is_copied(
    server: ThreadedServer, client: AmqpClient, tmp_path: Path
) -> None:
    def commit_or_forget(done: int) -> None:
        if done == 1:
            transact(server, b"during")
        else:
            checkpoint(server)
            assert journal_files(tmp_path / "data") == []

    back_up(server, tmp_path / "data", tmp_path / "copy", commit_or_forget)
    assert take(tmp_path / "copy", "a") == [b"before", b"during"]
    assert take(tmp_path / "copy", "b") == [b"before", b"during"]
