"""A group that has no consumer keeps its records too, also those of logs that it never saw."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.main import main
from metadata.direct_write import write_document
from metadata.document import Document
from metadata.document_files import DocumentFiles
from offsets import Consumer, LogRoot, Position, list_groups, remove_group
from offsets.consuming.known_groups import PATTERNS_MAX, KnownGroups
from tests.amqp_client import connect
from tests.appendlog.builders import flip
from tests.embedded.consumers import consumer, drain, fill
from tests.embedded.retention import COUNT, opened, real_time_ns, start_of
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what moves the clock of retention on."""

    def move(seconds: float) -> None:
        monkeypatch.setattr("time.time_ns", lambda: real_time_ns() + int(seconds * 1e9))

    return move


@pytest.fixture
def root(tmp_path: Path) -> Iterator[LogRoot]:
    """A root that keeps nothing that it need not keep; the group `g` knew only the log `a`."""
    with opened(tmp_path, retain_bytes=1) as root:
        fill(root, "a", 1)
        with consumer(root) as reader:
            drain(reader)
        yield root


def test_a_group_gets_all_of_a_log_that_appeared_while_it_was_away(root: LogRoot) -> None:
    fill(root, "b", COUNT)
    done = root.clean_up().logs["b"]
    assert (done.removed_segments, done.held_by) == (0, ("g",))
    with consumer(root) as reader:
        assert drain(reader)["b"] == list(range(COUNT))
        assert reader.statistics().dropped_total == 0
        reader.ack_range("b", 0, COUNT)
        reader.sync()
        assert root.clean_up().logs["b"].removed_records > 90


def test_who_holds_how_much_is_told(root: LogRoot) -> None:
    fill(root, "b", COUNT)
    with consumer(root, "half", "b") as reader:
        reader.ack_range("b", 0, COUNT // 2)
    done = root.clean_up()
    held = done.logs["b"].held_bytes
    assert done.held_bytes == held
    assert list(held) == ["g", "half"]
    assert held["g"] == done.held_back_bytes > held["half"] > 0
    places = {(each.group, each.log): each for each in list_groups(root.path)}
    assert places["g", "b"].committed is None
    assert places["g", "b"].held_bytes == held["g"]
    assert places["half", "b"].held_bytes == held["half"]
    assert places["g", "a"].held_bytes == 0
    assert ("half", "a") not in places


def test_a_group_counts_only_in_logs_that_it_reads(root: LogRoot) -> None:
    consumer(root, "narrow", "b-*").close()
    remove_group(root.path, "g")
    fill(root, "b-1", COUNT)
    fill(root, "c", COUNT)
    done = root.clean_up()
    assert done.logs["b-1"].held_by == ("narrow",)
    assert done.logs["c"].removed_records > 90
    # Another consumer of the group reads more: from now on it counts there as well.
    consumer(root, "narrow", "d").close()
    fill(root, "d", COUNT)
    assert root.clean_up().logs["d"].held_by == ("narrow",)


def test_what_was_taken_by_force_is_counted_as_dropped(root: LogRoot) -> None:
    fill(root, "b", COUNT)
    root.clean_up(force=True)
    start = start_of(root, "b")
    assert start > 90
    with consumer(root) as reader:
        assert reader.statistics().dropped_total == start
        reader.poll()
        assert reader.dropped_since_last_poll == start
        fill(root, "c", COUNT)
        root.clean_up(force=True)
        reader.lag()
        drain(reader)
        assert reader.statistics().dropped_total == start + start_of(root, "c") > start
    # Nobody has lost what was gone before anybody knew of the group.
    with consumer(root, "new") as reader:
        assert reader.statistics().dropped_total == 0


def test_a_group_that_is_removed_lets_go_of_logs_that_it_never_saw(root: LogRoot) -> None:
    fill(root, "b", COUNT)
    assert remove_group(root.path, "g") == 2
    assert list_groups(root.path) == []
    assert root.clean_up().logs["b"].removed_records > 90


def test_a_group_that_begins_at_the_end_lets_go_when_it_is_back(root: LogRoot) -> None:
    fill(root, "b", COUNT)
    with consumer(root, start=Position.LATEST) as reader:
        assert "b" not in drain(reader)
    assert root.clean_up().logs["b"].removed_records > 90


def test_a_group_without_a_consumer_expires(tmp_path: Path, later: Callable[[float], None]) -> None:
    with opened(tmp_path, retain_bytes=1, group_expires_after_seconds=100.0) as root:
        fill(root, "a", 1)
        with consumer(root):
            fill(root, "b", COUNT)
            later(1_000.0)
            # It has a consumer, which may be at one batch for hours.
            assert root.clean_up().logs["b"].held_by == ("g",)
        later(50.0)
        assert root.clean_up().logs["b"].held_by == ("g",)
        later(1_000.0)
        done = root.clean_up().logs["b"]
        assert (done.held_by, done.removed_records) == ((), start_of(root, "b"))
        with consumer(root) as reader:
            assert reader.statistics().dropped_total == start_of(root, "b") > 90


def test_without_that_option_no_group_expires(
    root: LogRoot, later: Callable[[float], None]
) -> None:
    fill(root, "b", COUNT)
    later(1e9)
    assert root.clean_up().logs["b"].held_by == ("g",)


def test_a_group_whose_document_is_damaged_counts_everywhere(root: LogRoot) -> None:
    consumer(root, "Ünique", "nothing-*").close()
    remove_group(root.path, "g")
    fill(root, "b", COUNT)
    (document,) = root.path.glob("metadata/groups/*/*.json")
    flip(document, 5)
    done = root.clean_up().logs["b"]
    assert (done.removed_segments, done.held_by) == (0, (document.stem,))
    # Its next consumer writes down what it reads, and the document is whole again.
    consumer(root, "Ünique", "nothing-*").close()
    assert KnownGroups(root.path, "/").load()["Ünique"].patterns == ("*", "nothing-*")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"patterns": ["a"]},
        {"patterns": 1, "since_ns": 1},
        {"patterns": ["a", 1], "since_ns": 1},
        {"patterns": ["a"], "since_ns": "1"},
    ],
)
def test_a_group_whose_document_says_what_cannot_be_counts_everywhere(
    root: LogRoot, body: dict[str, object]
) -> None:
    write_document(root.path / "metadata", Document("groups", "/", "g", body), DocumentFiles())
    known = KnownGroups(root.path, "/").load()["g"]
    assert (known.patterns, known.since_ns) == (("*",), 0)


def test_a_group_with_very_many_patterns_counts_everywhere(root: LogRoot) -> None:
    groups = KnownGroups(root.path, "/")
    for number in itertools.count():
        groups.add("many", f"pattern-{number}")
        if groups.load()["many"].patterns == ("*",):
            break
    assert number == PATTERNS_MAX


def test_servers_and_commands_pass_the_groups_by(root: LogRoot) -> None:
    root.close()
    assert main(["verify", "--storage-path", str(root.path)]) == 0
    with ThreadedServer(root.path) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.publish(b"1", "a")
        client.expect_confirmed()
    with Consumer(root.path, "g") as reader:
        assert drain(reader) == {"a": [0, 1]}
