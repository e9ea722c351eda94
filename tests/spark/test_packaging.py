"""One archive is all of ours that a cluster needs."""

import io
import os
import zipfile
from pathlib import Path

import pytest

from appendlog import Compression
from appendlog.files.filesystem import FileSystem
from appendlog.spark.running import packaging
from appendlog.spark.running.packaging import (
    DEPRECATION,
    build_package,
    package_archive,
    package_bytes,
)
from offsets import CheckpointStore, QueueCheckpoint
from tests.spark.builders import all_kinds_of_messages, plain_messages, store_queue
from tests.spark.clean_python import OURS_OR_OF_THE_SERVER, CleanPython


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the user's own cache out of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path / "cache" / "amqp-server"


def test_it_holds_the_readers_as_source_and_nothing_else() -> None:
    names = zipfile.ZipFile(io.BytesIO(package_bytes())).namelist()
    assert {"appendlog/split_reader.py", "metadata/document.py", "offsets/checkpoint.py"} < set(
        names
    )
    assert all(name.endswith(".py") for name in names)
    assert {name.split("/")[0] for name in names} <= set(packaging.PACKAGES)
    assert names == sorted(names)


def test_it_is_made_once_and_named_for_its_bytes(cache: Path) -> None:
    first = package_archive()
    stamp = first.stat().st_mtime_ns
    assert package_archive() == first
    assert first.stat().st_mtime_ns == stamp
    assert [path.name for path in cache.iterdir()] == [first.name]


def test_one_that_was_damaged_is_made_again() -> None:
    package = package_archive()
    package.write_bytes(package.read_bytes()[:1000])
    assert package_archive().read_bytes() == package_bytes()


def test_of_earlier_ones_the_newest_are_kept(cache: Path) -> None:
    cache.mkdir(parents=True)
    for number in range(12):
        (cache / f"amqplog-{number}.zip").touch()
        os.utime(cache / f"amqplog-{number}.zip", (number, number))
    package = package_archive()
    kept = {path.name for path in cache.iterdir()}
    assert kept == {package.name, *(f"amqplog-{number}.zip" for number in range(5, 12))}


def test_without_a_writable_cache_it_is_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    package = package_archive()
    assert package.read_bytes() == package_bytes()
    assert tmp_path not in package.parents


def test_a_job_that_asks_for_it_is_told_what_to_do_instead() -> None:
    with pytest.warns(FutureWarning, match="spark.archives=env.tar.gz#env") as warned:
        package = build_package()
    assert str(warned[0].message) == DEPRECATION
    assert warned[0].filename == __file__
    assert package == package_archive()


@pytest.fixture
def stored(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a data directory with a queue, whose log is packed as the parameter says."""
    queue = store_queue(tmp_path / "data", "orders", compression=request.param)
    queue.append(all_kinds_of_messages() + plain_messages(1000), step=400)
    queue.close()
    store, _, _ = CheckpointStore.open(queue.storage_path / "offsets", FileSystem())
    store.write_round([QueueCheckpoint(queue.location.incarnation, 1000, [])])
    store.close()
    return queue.storage_path


@pytest.mark.parametrize(
    ("stored", "packages"),
    [(Compression.NONE, ["crc32c"]), (Compression.ZSTD, ["crc32c", "zstandard"])],
    indirect=["stored"],
    ids=["not packed", "packed"],
)
def test_a_python_with_pyspark_and_the_checksums_reads_a_log_with_it(
    tmp_path: Path, stored: Path, packages: list[str]
) -> None:
    package = package_archive()
    python = CleanPython(tmp_path / "clean", package, packages=packages)
    answer = python.run(READ, str(stored), *OURS_OR_OF_THE_SERVER)
    rows, importable, archive, build, of_source = answer.splitlines()
    assert of_source == "36 offset"
    assert int(rows) == 1036
    assert build == "interpreted"
    assert importable.split() == ["appendlog", *packages[:1], "metadata", "offsets", *packages[1:]]
    assert archive == str(package)


@pytest.mark.parametrize(
    ("stored", "packages", "missing"),
    [(Compression.NONE, [], "crc32c"), (Compression.ZSTD, ["crc32c"], "zstandard")],
    indirect=["stored"],
    ids=["crc32c", "zstandard"],
)
def test_a_package_that_is_missing_is_named_with_what_to_do(
    tmp_path: Path, stored: Path, packages: list[str], missing: str
) -> None:
    python = CleanPython(tmp_path / "clean", package_archive(), packages=packages)
    *_, last = python.fail(READ, str(stored)).splitlines()
    assert last.startswith(
        f"appendlog.errors.MissingPackageError: the package {missing} is missing in "
    )
    assert f"pip install {missing} there" in last
    assert "send them a packed environment (docs/spark-clusters.md, Packaging)" in last


def test_every_module_of_it_is_imported_without_the_servers_packages(tmp_path: Path) -> None:
    package = package_archive()
    python = CleanPython(tmp_path / "clean", package, packages=["crc32c"])
    lines = python.run(IMPORT_ALL, str(package)).splitlines()
    missing = [(module, library) for module, library in map(str.split, lines)]
    assert {module for module, library in missing if library == "aiofiles"} == WITH_AN_EVENT_LOOP
    assert {library for _, library in missing} <= OF_OTHER_EXTRAS | {"aiofiles"}


WITH_AN_EVENT_LOOP = {
    "metadata.file_workers",
    "metadata.open_removal",
    "metadata.store",
    "metadata.write_rounds",
}
OF_OTHER_EXTRAS = {"boto3", "botocore", "deltalake", "fsspec", "pyiceberg"}
IMPORT_ALL = """
import importlib, sys, zipfile

for name in zipfile.ZipFile(sys.argv[1]).namelist():
    module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        print(module, error.name)
"""

READ = """
import importlib.util, sys
from pathlib import Path
from appendlog import LogReader
from appendlog.layout.columns import COMPILED
from appendlog.spark.decoding.log_batches import log_batches
from appendlog.spark.planning.queues import find_queue
from appendlog.spark.running.packaging import package_archive
from appendlog.split_reader import SplitReader
from pyspark.sql.types import LongType, StructField, StructType
from pyspark_amqplog import DefaultSource
import offsets

log = find_queue(Path(sys.argv[1]), "/", "orders")
with LogReader(log.directory) as reader:
    splits = reader.plan_splits()
rows = 0
for split in splits:
    for batch in log_batches(SplitReader(log.directory), log, split):
        batch.rows.validate(full=True)
        rows += batch.rows.num_rows
print(rows)
print(*[name for name in sys.argv[2:] if importlib.util.find_spec(name)])
print(package_archive())
print("compiled" if COMPILED else "interpreted")

source = DefaultSource({"path": sys.argv[1], "subscribe": "orders", "include": "unacked"})
reader = source.reader(StructType([StructField("offset", LongType())]))
batches = [batch for part in reader.partitions() for batch in reader.read(part)]
print(sum(batch.num_rows for batch in batches), *batches[0].schema.names)
"""
