"""Records of a data directory's exports, for people who look at the server.

Each output has one small JSON document in the folder `exports` of the data directory; each run of
`amqp-server export` replaces it. The output itself has all that counts: a document that is missing
or old changes no export. It has no secrets: options of stores and settings of Spark are not in it.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from appendlog.files.filesystem import FileSystem

EXPORTS_FOLDER: Final = "exports"
FORMAT: Final = 1
RECORD_BYTES_MAX: Final = 1 << 20
RECORDS_MAX: Final = 1000
"""Outputs that are remembered; the oldest documents go first."""
QUEUES_MAX: Final = 1000
"""Queues of one output that are remembered, those of the last runs first."""
_SUFFIX: Final = ".json"

Record = dict[str, Any]


def record_path(storage_path: Path, out: str) -> Path:
    """Return the path of the document of an output."""
    name = sha256(out.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return storage_path / EXPORTS_FOLDER / f"{name}{_SUFFIX}"


def read_records(storage_path: Path, filesystem: FileSystem | None = None) -> list[Record]:
    """Return the documents of all outputs, the last run first; unreadable ones are left out."""
    filesystem = filesystem or FileSystem()
    folder = storage_path / EXPORTS_FOLDER
    try:
        names = sorted(filesystem.listdir(folder))[: 2 * RECORDS_MAX]
    except OSError:
        return []
    records = [_read(folder / name, filesystem) for name in names if name.endswith(_SUFFIX)]
    found = [record for record in records if record]
    found.sort(key=lambda record: record["started_ns"], reverse=True)
    return found[:RECORDS_MAX]


def begin_record(
    storage_path: Path,
    out: str,
    settings: Record,
    now_ns: int,
    filesystem: FileSystem | None = None,
) -> Record:
    """Note that a run begins; return the document, which `end_record` takes.

    Args:
        storage_path: Data directory.
        out: Output, as texts show it.
        settings: What the command was told, as JSON values; no secrets.
        now_ns: Time in ns since 1970 UTC.
        filesystem: File operations; those of the operating system by default.

    Raises:
        OSError: The file cannot be written.
    """
    filesystem = filesystem or FileSystem()
    path = record_path(storage_path, out)
    if not filesystem.exists(path.parent):
        with suppress(FileExistsError):
            filesystem.mkdir(path.parent)
        filesystem.sync_directory(storage_path)
    before = _read(path, filesystem)
    record = {
        "format": FORMAT,
        "out": out,
        "settings": settings,
        "runs": before.get("runs", 0) + 1,
        "started_ns": now_ns,
        "ended_ns": 0,
        "exit_code": None,
        "queues": before.get("queues", []),
    }
    if not before:
        _make_room(path.parent, filesystem)
    _write(path, record, filesystem)
    return record


def end_record(
    storage_path: Path,
    record: Record,
    queues: list[Record],
    exit_code: int,
    now_ns: int,
    filesystem: FileSystem | None = None,
) -> None:
    """Note what a run has done.

    Args:
        storage_path: Data directory.
        record: From `begin_record`.
        queues: What became of each queue: `vhost`, `queue`, `incarnation`, `status`; of those that
            were exported also `end`, and `rows` of this run; of failed ones `error`.
        exit_code: Of the command.
        now_ns: Time in ns since 1970 UTC.
        filesystem: File operations; those of the operating system by default.

    Raises:
        OSError: The file cannot be written.
    """
    known = {(each["vhost"], each["queue"]): each for each in record["queues"]}
    for each in queues:
        place = each["vhost"], each["queue"]
        before = known.pop(place, {})
        if before.get("incarnation") != each["incarnation"]:
            before = {}
        ended = {
            **{name: each[name] for name in ("vhost", "queue", "incarnation", "status")},
            "end": max(each.get("end", 0), before.get("end", 0)),
            "rows": before.get("rows", 0) + each.get("rows", 0),
            "error": each.get("error", ""),
            "ended_ns": now_ns,
        }
        known[place] = ended
    kept = list(known.values())[-QUEUES_MAX:]
    ended_record = {**record, "queues": kept, "ended_ns": now_ns, "exit_code": exit_code}
    path = record_path(storage_path, record["out"])
    _write(path, ended_record, filesystem or FileSystem())


def _read(path: Path, filesystem: FileSystem) -> Record:
    """Return a document; empty if there is none, or it is none."""
    try:
        record = json.loads(filesystem.read_file(path, RECORD_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if _is_record(record) else {}


def _is_record(record: object) -> bool:
    """Return whether a value has what readers use, with its types."""
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        return False
    numbers = all(type(record.get(name)) is int for name in ("runs", "started_ns", "ended_ns"))
    queues = record.get("queues")
    if not numbers or not isinstance(record.get("out"), str) or not isinstance(queues, list):
        return False
    if not isinstance(record.get("settings"), dict):
        return False
    texts, counts = (
        ("vhost", "queue", "incarnation", "status", "error"),
        ("end", "rows", "ended_ns"),
    )
    return all(
        isinstance(each, dict)
        and all(isinstance(each.get(name), str) for name in texts)
        and all(type(each.get(name)) is int for name in counts)
        for each in queues
    )


def _make_room(folder: Path, filesystem: FileSystem) -> None:
    """Remove the documents with the oldest runs, if there are too many."""
    names = [name for name in filesystem.listdir(folder) if name.endswith(_SUFFIX)]
    if len(names) < RECORDS_MAX:
        return
    ages = {name: _read(folder / name, filesystem).get("started_ns", 0) for name in names}
    for name in sorted(names, key=lambda name: ages[name])[: len(names) - RECORDS_MAX + 1]:
        with suppress(OSError):
            filesystem.unlink(folder / name)


def _write(path: Path, record: Record, filesystem: FileSystem) -> None:
    octets = json.dumps(record).encode() + b"\n"
    while len(octets) > RECORD_BYTES_MAX and record["queues"]:
        record = {**record, "queues": record["queues"][len(record["queues"]) // 2 + 1 :]}
        octets = json.dumps(record).encode() + b"\n"
    beside = path.with_suffix(".new")
    descriptor = filesystem.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        filesystem.write_all(descriptor, [octets], 0, sync=False)
        filesystem.fsync(descriptor)
    finally:
        filesystem.close(descriptor)
    filesystem.rename(beside, path)
    filesystem.sync_directory(path.parent)
