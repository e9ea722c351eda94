import gzip
import zlib
from pathlib import Path

import pytest

from amqp_server.protocol.properties import Properties
from appendlog import encode_message
from appendlog.layout.message import PERSISTENT
from appendlog.spark.source import decompression
from tests.spark.builders import store_queue
from tests.spark.source_reading import batches_of, read_rows, reader_of

TEXT = b"so it was before " * 50


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def store(path: Path, *messages: tuple[str | None, bytes]) -> Path:
    queue = store_queue(path)
    queue.append(
        [
            encode_message(
                PERSISTENT, b"", b"k", Properties(content_encoding=encoding).encode(), body
            )
            for encoding, body in messages
        ]
    )
    queue.close()
    return path


def read(path: Path, **options: str) -> list[tuple[str | None, bytes]]:
    rows = read_rows(path, decompress="true", **options)
    return [(row["content_encoding"], row["value"]) for row in rows]


def test_bodies_are_what_they_were_before_and_have_no_encoding_any_more(tmp_path: Path) -> None:
    packed = [
        ("gzip", gzip.compress(TEXT)),
        ("GZIP ", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
        ("x-gzip", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
    ]
    path = store(tmp_path, *packed, (None, TEXT), ("gzip", gzip.compress(b"")))
    assert read(path) == [(None, TEXT)] * 6 + [(None, b"")]
    rows = read_rows(path)
    assert [(row["content_encoding"], row["value"]) for row in rows[:5]] == packed


def test_what_cannot_be_unpacked_stays_as_it_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "BODY_BYTES_MAX", 10_000)
    others: list[tuple[str | None, bytes]] = [
        ("gzip", TEXT),
        ("gzip", gzip.compress(TEXT)[:-9]),
        ("gzip", gzip.compress(TEXT) + b"more"),
        ("gzip", b""),
        ("gzip", gzip.compress(bytes(10_001))),
        ("deflate", b"\xff\xff"),
        ("br", TEXT),
        ("utf-8", TEXT),
    ]
    path = store(tmp_path, *others, ("gzip", gzip.compress(bytes(10_000))))
    assert read(path) == [*others, (None, bytes(10_000))]


def test_batches_stay_small_whatever_bodies_unpack_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompression, "BATCH_BYTES", 5_000)
    path = store(tmp_path, *[("gzip", gzip.compress(b"%04d" % at * 500)) for at in range(30)])
    batches = batches_of(reader_of(path, decompress="true"))
    assert max(batch.column("value").nbytes for batch in batches) < 6_000
    offsets = [row for batch in batches for row in batch.column("offset").to_pylist()]
    assert offsets == list(range(30))
    assert read(path) == [(None, b"%04d" % at * 500) for at in range(30)]


def test_it_is_the_same_whichever_columns_are_asked_for(tmp_path: Path) -> None:
    path = store(tmp_path, ("gzip", gzip.compress(TEXT)), ("br", TEXT))
    for columns in ("value", "content_encoding", "offset", "key,value"):
        every = read_rows(path, decompress="true")
        assert read_rows(path, decompress="true", columns=columns) == [
            {name: row[name] for name in columns.split(",")} for row in every
        ]
    (first, _) = read_rows(path, decompress="true", kafkaSchema="true")
    assert first["value"] == TEXT


def test_a_body_of_very_many_parts_costs_no_more_than_its_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What stands behind a part is copied: of a whole body, for each part, that is its square."""
    body = gzip.compress(b"") * 5000 + gzip.compress(TEXT)
    copied = 0

    class Counting:
        def __init__(self, kind: int) -> None:
            self._stream = make(kind)

        def __getattr__(self, name: str) -> object:
            nonlocal copied
            found = getattr(self._stream, name)
            if name == "unused_data":
                copied += len(found)
            return found

    make = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    assert decompression._unpack(body, decompression._kinds("gzip")) == TEXT
    assert copied < 5001 * 4096
