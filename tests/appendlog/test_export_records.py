"""Notes of exports in the data directory: one document for each output, bounded, never trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appendlog import export_records
from appendlog.export_records import (
    EXPORTS_FOLDER,
    begin_record,
    end_record,
    read_records,
    record_path,
)

SETTINGS = {"vhost": "/", "queues": ["q"]}


def queue(name: str = "q", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"vhost": "/", "queue": name, "incarnation": "i", "status": "exported", **fields}


def run(path: Path, out: str, now_ns: int, *queues: dict[str, Any]) -> None:
    record = begin_record(path, out, SETTINGS, now_ns)
    end_record(path, record, list(queues), 0, now_ns + 5)


def test_runs_into_one_output_add_up(tmp_path: Path) -> None:
    run(tmp_path, "lake", 1, queue(end=10, rows=9), queue("other", end=3, rows=3))
    run(tmp_path, "lake", 10, queue(end=25, rows=15))
    run(tmp_path, "lake <b>/\udcff", 20)
    other, lake = read_records(tmp_path)
    assert other["out"] == "lake <b>/\udcff"
    assert (lake["runs"], lake["started_ns"], lake["ended_ns"], lake["exit_code"]) == (2, 10, 15, 0)
    assert [(each["queue"], each["end"], each["rows"]) for each in lake["queues"]] == [
        ("other", 3, 3),
        ("q", 25, 24),
    ]


def test_a_run_that_has_not_ended_has_no_end(tmp_path: Path) -> None:
    run(tmp_path, "lake", 1, queue(end=10, rows=9))
    begin_record(tmp_path, "lake", SETTINGS, 100)
    (lake,) = read_records(tmp_path)
    assert (lake["ended_ns"], lake["exit_code"], lake["queues"][0]["end"]) == (0, None, 10)


def test_a_queue_that_failed_keeps_its_place_and_a_new_one_begins_again(tmp_path: Path) -> None:
    run(tmp_path, "lake", 1, queue(end=10, rows=9))
    run(tmp_path, "lake", 2, queue(status="failed", error="damaged"))
    (lake,) = read_records(tmp_path)
    assert lake["queues"][0] | {"ended_ns": 0} == {
        **queue(status="failed"),
        "end": 10,
        "rows": 9,
        "error": "damaged",
        "ended_ns": 0,
    }
    run(tmp_path, "lake", 3, queue(incarnation="new", end=2, rows=2))
    assert [each["end"] for each in read_records(tmp_path)[0]["queues"]] == [2]


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"[]",
        b"{" * 10_000,
        b'{"format": 2}',
        b'{"format": 1, "out": 5, "runs": 1, "started_ns": 1, "ended_ns": 1, "queues": []}',
        b'{"format": 1, "out": "x", "settings": {}, "runs": 1, "started_ns": 1, "ended_ns": 1, '
        b'"queues": [5]}',
        b'{"format": 1, "out": "x", "settings": {}, "runs": true, "started_ns": 1, "ended_ns": 1, '
        b'"queues": []}',
    ],
)
def test_what_is_no_document_is_left_out_and_replaced(tmp_path: Path, octets: bytes) -> None:
    path = record_path(tmp_path, "lake")
    path.parent.mkdir()
    path.write_bytes(octets)
    (path.parent / "a.json").mkdir()
    assert read_records(tmp_path) == []
    run(tmp_path, "lake", 1, queue(end=1, rows=1))
    assert [record["runs"] for record in read_records(tmp_path)] == [1]


def test_there_are_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_records, "RECORDS_MAX", 3)
    for number in range(5):
        run(tmp_path, f"out-{number}", number + 1)
    assert [record["out"] for record in read_records(tmp_path)] == ["out-4", "out-3", "out-2"]
    assert len(list((tmp_path / EXPORTS_FOLDER).iterdir())) == 3
    monkeypatch.setattr(export_records, "RECORD_BYTES_MAX", 20_000)
    many = [queue(f"q{number}", end=1, rows=1) for number in range(500)]
    run(tmp_path, "large", 9, *many)
    large = record_path(tmp_path, "large").read_bytes()
    assert len(large) <= 20_000
    assert json.loads(large)["queues"][-1]["queue"] == "q499"


def test_without_a_folder_there_are_none(tmp_path: Path) -> None:
    assert read_records(tmp_path) == []
