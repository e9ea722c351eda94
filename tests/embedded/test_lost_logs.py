"""Consumers of logs that are not what they were: deleted, made anew, short of their end."""

import shutil
import uuid
from pathlib import Path

import pytest

from appendlog import FileSystem
from offsets import LogRoot, read_checkpoint, remove_group
from offsets.consuming.shared_checkpoints import SharedCheckpoints
from tests.amqp_client import connect
from tests.embedded.consumers import SMALL_SEGMENTS, consumer, drain, fill
from tests.threaded_server import ThreadedServer


def test_a_log_that_is_deleted_while_it_is_read_ends_there(root: LogRoot) -> None:
    fill(root, "events", 100)
    with consumer(root, discovery_interval_seconds=60.0) as reader:
        assert reader.poll(1) is not None
        root.delete("events")
        while reader.poll(1) is not None:
            pass  # what it has open can still be read
        fill(root, "others", 1)
    with consumer(root) as reader:
        assert drain(reader) == {"others": [0]}


@pytest.mark.parametrize(("max_records", "max_bytes"), [(0, 1), (1, 0)])
def test_a_poll_for_nothing_is_refused(root: LogRoot, max_records: int, max_bytes: int) -> None:
    fill(root, "events", 1)
    with consumer(root) as reader, pytest.raises(ValueError, match="is not positive"):
        reader.poll(max_records, max_bytes)


def test_synced_acks_outlive_a_power_cut_that_takes_the_advisory_end(root: LogRoot) -> None:
    fill(root, "events", 3)
    end = next(root.path.rglob("end"))
    once = end.read_bytes()
    fill(root, "events", 7)
    with consumer(root) as reader:
        reader.ack_range("events", 0, 5)
        reader.ack_range("events", 6, 8)
    root.close()
    # Nobody syncs it: any earlier content may be there, until a writer opens the log again.
    end.write_bytes(once)
    with consumer(root) as reader:
        assert reader.committed("events") == 5
        assert reader.poll() is None
        assert reader.lag().total == 0
    with LogRoot.open(root.path, SMALL_SEGMENTS) as again:
        fill(again, "events", 1)
        with consumer(again) as reader:
            assert drain(reader) == {"events": [5, 8, 9, 10]}


def test_records_that_follow_lost_ones_are_none_that_were_acked(root: LogRoot) -> None:
    fill(root, "events", 5)
    with consumer(root) as reader:
        reader.ack_range("events", 0, 4)
    root.close()
    for path in next(root.path.rglob("end")).parent.iterdir():
        path.unlink()
    with LogRoot.open(root.path, SMALL_SEGMENTS) as again:
        # The group had not read the fifth, and knew that it was on the disk.
        assert again.append("events", b"new") == 5
        assert again.log("events").recovery.lost == [(0, 5)]
        again.sync()
        with consumer(again) as reader:
            batch = reader.poll()
            assert batch is not None
            assert batch.payloads == [b"new"]


def test_a_log_of_which_nothing_was_acked_is_missed_when_it_is_gone(root: LogRoot) -> None:
    fill(root, "events", 5)
    with consumer(root) as reader:
        assert reader.poll() is not None
        reader.sync()
    root.close()
    for path in next(root.path.rglob("end")).parent.iterdir():
        path.unlink()
    with LogRoot.open(root.path, SMALL_SEGMENTS) as again:
        assert again.log("events").recovery.lost == [(0, 5)]
        assert again.append("events", b"new") == 5
    with LogRoot.open(root.path, SMALL_SEGMENTS) as again:
        assert again.log("events").recovery.is_clean


def test_a_log_that_a_server_has_written_is_missed_when_it_is_gone(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("events", arguments={"x-queue-type": "stream"})
        client.publish(b"one", "events")
        client.expect_confirmed()
    shutil.rmtree(tmp_path / "logs")
    with LogRoot.open(tmp_path, SMALL_SEGMENTS) as root:
        assert root.append("events", b"two") == 1
        assert root.log("events").recovery.lost == [(0, 1)]


def test_a_log_that_is_made_anew_is_read_from_its_beginning(root: LogRoot) -> None:
    fill(root, "events", 5)
    with consumer(root) as reader:
        reader.ack_range("events", 0, 5)
        root.delete("events")
        fill(root, "events", 2)
        assert drain(reader) == {"events": [0, 1]}


def locks(root: LogRoot) -> list[str]:
    """Return what is left in the directory of the consumers' locks."""
    return sorted(
        str(path.relative_to(root.path / "locks")) for path in root.path.glob("locks/**/*")
    )


def test_a_deleted_log_leaves_no_lock(root: LogRoot) -> None:
    for name in ("kept", "gone"):
        fill(root, name, 1)
    consumer(root, "one").close()
    consumer(root, "two", "gone").close()
    root.delete("gone")
    kept = str(root.log("kept").log.identity.incarnation)
    assert locks(root) == ["one", f"one/{kept}"]


def test_the_checkpoints_forget_a_deleted_log(root: LogRoot) -> None:
    for name in ("kept", "gone"):
        fill(root, name, 3)
    with consumer(root) as reader:
        for name in ("kept", "gone"):
            reader.ack(name, 1)
    gone = root.log("gone").log.identity.incarnation
    checkpoints = SharedCheckpoints(root.path)
    assert (gone, "g") in checkpoints.load()
    generation = read_checkpoint(root.path / "offsets", FileSystem()).generation
    root.delete("gone")
    kept = root.log("kept").log.identity.incarnation
    assert list(checkpoints.load()) == [(kept, "g")]
    # A log that no group has seen costs no round.
    fill(root, "unread", 1)
    root.delete("unread")
    assert read_checkpoint(root.path / "offsets", FileSystem()).generation == generation + 1
    with consumer(root) as reader:
        assert drain(reader) == {"kept": [0, 2]}


def test_a_consumer_notes_nothing_of_a_log_that_was_deleted_under_it(root: LogRoot) -> None:
    for name in ("kept", "gone"):
        fill(root, name, 3)
    with consumer(root, discovery_interval_seconds=60.0) as reader:
        root.delete("gone")
        for name in ("kept", "gone"):
            reader.ack(name, 0)
        reader.sync()
    kept = root.log("kept").log.identity.incarnation
    (state,) = SharedCheckpoints(root.path).load().values()
    assert (state.incarnation, state.committed) == (kept, 1)


def test_a_log_that_is_deleted_under_its_consumer_leaves_no_lock(root: LogRoot) -> None:
    fill(root, "events", 1)
    with consumer(root) as reader:
        reader.poll()
        root.delete("events")
        assert len(locks(root)) == 2
        fill(root, "events", 1)
        assert drain(reader) == {"events": [0]}
        incarnation = root.log("events").log.identity.incarnation
        assert locks(root) == ["g", f"g/{incarnation}"]


def test_a_removed_group_leaves_no_lock(root: LogRoot) -> None:
    for name in ("events", "others"):
        fill(root, name, 1)
    consumer(root).close()
    consumer(root, "h").close()
    assert len(locks(root)) == 6
    remove_group(root.path, "g")
    assert len(locks(root)) == 3
    with consumer(root):
        assert len(locks(root)) == 6


def test_a_removed_group_leaves_no_lock_of_a_log_that_was_lost(root: LogRoot) -> None:
    fill(root, "events", 1)
    consumer(root).close()
    (root.path / "locks" / "g" / str(uuid.uuid4())).touch()
    remove_group(root.path, "g")
    assert locks(root) == []
