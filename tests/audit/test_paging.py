"""The audit log is read backwards, by pages, also while it grows and while files go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amqp_server.audit.paging import BadPlaceError, read_page
from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from tests.servers import RunningServer


def write(path: Path, kind: str, number: int, times: range, **fields: str) -> None:
    directory = path / "audit"
    directory.mkdir(exist_ok=True)
    with (directory / f"{kind}-{number:08d}.jsonl").open("a") as file:
        for time in times:
            line = {"time": f"{time:09d}", "event": f"{kind}.done", "user": "u", **fields}
            file.write(json.dumps(line) + "\n")


def times(path: Path, limit: int, **chosen: object) -> list[int]:
    found: list[int] = []
    before = ""
    while True:
        page = read_page(path, before, limit, **chosen)  # type: ignore[arg-type]
        assert len(page.events) <= limit
        found += [int(event["time"]) for event in page.events]
        before = page.next
        if not before:
            return found


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_pages_have_every_event_once_from_the_newest_on(tmp_path: Path, limit: int) -> None:
    write(tmp_path, "changes", 1, range(0, 40, 2))
    write(tmp_path, "changes", 2, range(40, 60, 2))
    write(tmp_path, "sessions", 1, range(1, 60, 2))
    assert times(tmp_path, limit) == list(range(59, -1, -1))


def test_long_lines_cross_what_is_read_at_a_time(tmp_path: Path) -> None:
    write(tmp_path, "changes", 1, range(200), details="x" * 3000)
    assert times(tmp_path, 50) == list(range(199, -1, -1))


def test_what_comes_meanwhile_does_not_shift_the_pages(tmp_path: Path) -> None:
    write(tmp_path, "changes", 1, range(10))
    first = read_page(tmp_path, "", 4)
    write(tmp_path, "changes", 1, range(10, 20))
    write(tmp_path, "changes", 2, range(20, 30))
    second = read_page(tmp_path, first.next, 4)
    assert [int(each["time"]) for each in second.events] == [5, 4, 3, 2]


def test_a_cut_line_and_lines_that_are_no_events_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "changes", 1, range(3))
    path = tmp_path / "audit" / "changes-00000001.jsonl"
    with path.open("a") as file:
        file.write('no json\n[1]\n\n{"time":"9","event":"cut","us')
    assert times(tmp_path, 10) == [2, 1, 0]


def test_events_are_chosen_by_name_user_and_virtual_host(tmp_path: Path) -> None:
    write(tmp_path, "changes", 1, range(3), vhost="a")
    write(tmp_path, "changes", 1, range(3, 6), vhost="b")
    write(tmp_path, "sessions", 1, range(6, 9))
    assert times(tmp_path, 2, names=["changes.*"]) == [5, 4, 3, 2, 1, 0]
    assert times(tmp_path, 2, vhost="a") == [2, 1, 0]
    assert times(tmp_path, 2, user="other") == []


def test_without_files_there_is_nothing(tmp_path: Path) -> None:
    assert times(tmp_path, 5) == []


@pytest.mark.parametrize("text", ["x", "changes-1", "changes-1-x", "other-1-1", "changes-1--1"])
def test_other_texts_are_no_places(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadPlaceError):
        read_page(tmp_path, text, 5)


def test_the_running_server_shows_them(server: RunningServer) -> None:
    ask(server.storage_path, "vhosts.add", name="v1")
    while not ask(server.storage_path, "audit.list", events=["vhost.*"])["events"]:
        pass
    found = ask(server.storage_path, "audit.list", events=["vhost.*"])
    assert [(each["event"], each["object"]) for each in found["events"]] == [
        ("vhost.created", "v1")
    ]
    with pytest.raises(ControlError, match="must be 1 to 1000"):
        ask(server.storage_path, "audit.list", limit=0)
    with pytest.raises(ControlError, match="'before' is not what an answer gave"):
        ask(server.storage_path, "audit.list", before="no")
