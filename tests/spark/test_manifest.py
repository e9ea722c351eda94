import json
from dataclasses import replace
from pathlib import Path

import pytest

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.committing.manifest import (
    Manifest,
    Total,
    add_to,
    decode_manifest,
    encode_manifest,
)
from appendlog.spark.exporting.committing.manifests import Manifests
from appendlog.spark.exporting.destination import CorruptRange
from appendlog.spark.exporting.stores.local_store import LocalStore
from tests.spark.commits import destination, export


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    store = LocalStore(tmp_path)
    export(destination(store), 10)
    return Manifests(store, "orders").read(0)


def test_a_manifest_is_what_was_written(manifest: Manifest) -> None:
    damage = CorruptRange(12, 14, "0.log", 100, 200, "CRC mismatch")
    manifest = replace(manifest, gaps=((10, 12),), corrupt=(damage,), queue="\udcff\u20ac\n")
    data = encode_manifest(manifest)
    assert decode_manifest(data, "x") == manifest
    assert data == encode_manifest(decode_manifest(data, "x"))
    assert data.isascii()
    assert data.count(b"\n") == 1


def test_every_changed_byte_is_found(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    for at in range(len(data) - 1):  # the line feed at the end says nothing
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(OutputError, match=r"damaged|version"):
            decode_manifest(changed, "x")
    for size in range(len(data) - 1):
        with pytest.raises(OutputError, match="damaged"):
            decode_manifest(data[:size], "x")


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b"1", b'{"version":1}', b"\xff"])
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(OutputError, match="x: damaged"):
        decode_manifest(data, "x")


def test_a_newer_version_is_refused_with_what_to_do(manifest: Manifest) -> None:
    document = json.loads(encode_manifest(manifest)) | {"version": 3}
    with pytest.raises(OutputError, match=r"version 3.* knows version 2: use the newer"):
        decode_manifest(json.dumps(document).encode(), "x")


def test_a_field_that_came_later_is_passed_over(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(encode_manifest(manifest))
    del document["checksum"]
    document["later"] = document["files"][0]["later"] = document["total"]["later"] = 1
    from appendlog.spark.exporting.committing import manifest as module

    document["checksum"] = module._checksum(document)
    assert decode_manifest(json.dumps(document).encode(), "x") == manifest


def test_sums_add_up(manifest: Manifest) -> None:
    later = replace(manifest, ranges=((10, 25), (30, 31)), missing=5, excluded=1, created="t")
    total = add_to(add_to(Total(), manifest), later)
    assert total == Total(
        include="all",
        covered=((0, 25), (30, 31)),
        exports=2,
        files=6,
        rows=20,
        bytes=2 * manifest.total.bytes,
        missing=5,
        excluded=1,
        last_export="t",
    )
    assert total.is_exact
    assert not replace(total, rows=19).is_exact
