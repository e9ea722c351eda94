"""A machine that stops, or a disk that fails, at every operation of the metadata store."""

import asyncio
import errno
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.store import MetadataStore
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError

pytestmark = pytest.mark.crash


def queue(name: str, number: int) -> Document:
    return Document("queues", "/", name, {"number": number})


async def load(root: Path) -> list[Document]:
    report = await MetadataStore(root).load()
    assert report.unreadable == []
    return report.documents


async def make_changes(store: MetadataStore) -> AsyncIterator[None]:
    """Create, replace, delete and create again, yielding after each that was acknowledged."""
    await store.put(queue("a", 1))
    yield
    await store.put(queue("a", 2))
    yield
    await store.delete("queues", "/", "a")
    yield
    await store.put(queue("b", 3))
    yield


# After n completed changes the stored state is this; an interrupted one leaves its own or the next.
STATES: list[list[Document]] = [
    [],
    [queue("a", 1)],
    [queue("a", 2)],
    [],
    [queue("b", 3)],
]


async def run_until_stopped(root: Path, filesystem: FaultyFileSystem) -> int:
    """Make changes; return how many were acknowledged before the machine stopped."""
    completed = 0
    with suppress(StoppedError, ExceptionGroup):
        async for _ in make_changes(MetadataStore(root, DocumentFiles(filesystem))):
            completed += 1
    return completed


@pytest.mark.parametrize("written_bytes", [0, 10, 10_000])
async def test_a_stop_at_any_operation_leaves_the_old_or_the_new_state(
    tmp_path: Path, written_bytes: int
) -> None:
    for stop_at in range(1000):
        top = tmp_path / str(stop_at)
        top.mkdir()
        filesystem = FaultyFileSystem(top, stop_at, StoppedError(), written_bytes=written_bytes)
        completed = await run_until_stopped(top / "metadata", filesystem)
        filesystem.end_process()
        assert await load(top / "metadata") in STATES[completed : completed + 2]
        if completed == len(STATES) - 1:
            return
    raise AssertionError


@pytest.mark.parametrize("seed", range(6))
async def test_a_power_cut_at_any_operation_leaves_the_old_or_the_new_state(
    tmp_path: Path, seed: int
) -> None:
    for stop_at in range(1000):
        top = tmp_path / str(stop_at)
        top.mkdir()
        filesystem = FaultyFileSystem(top, stop_at, StoppedError())
        completed = await run_until_stopped(top / "metadata", filesystem)
        filesystem.power_cut(random.Random(f"{seed} {stop_at}") if seed else None)
        assert await load(top / "metadata") in STATES[completed : completed + 2]
        if completed == len(STATES) - 1:
            return
    raise AssertionError


async def test_a_disk_error_at_any_operation_fails_that_call_and_later_ones_succeed(
    tmp_path: Path,
) -> None:
    for fault_at in range(1000):
        top = tmp_path / str(fault_at)
        root = top / "metadata"
        top.mkdir()
        filesystem = FaultyFileSystem(
            top, fault_at, errno.ENOSPC, failing_operations=1, written_bytes=5
        )
        store = MetadataStore(root, DocumentFiles(filesystem))
        failures = []
        for number in (1, 1, 2, 2):
            try:
                await store.put(queue("q", number))
            except DocumentWriteError as error:
                failures.append((error.path, error.cause.errno))
        assert await load(root) == [queue("q", 2)]
        assert not filesystem.open_count
        if not failures:
            return
        assert failures == [(root / "queues" / "%2f" / "q.json", errno.ENOSPC)]
    raise AssertionError


async def test_a_power_cut_after_a_round_over_several_directories_loses_nothing(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    store = MetadataStore(tmp_path / "metadata", DocumentFiles(filesystem))
    kinds = ["bindings", "exchanges", "queues"]
    documents = [Document(kind, "/", "a", {}) for kind in kinds]

    await asyncio.gather(*(store.put(document) for document in documents))
    filesystem.power_cut()

    assert await load(tmp_path / "metadata") == documents


async def test_a_power_cut_after_removals_in_several_directories_brings_nothing_back(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    store = MetadataStore(tmp_path / "metadata", DocumentFiles(filesystem))
    kinds = ["bindings", "exchanges", "queues"]
    for kind in kinds:
        await store.put(Document(kind, "/", "a", {}))

    await asyncio.gather(*(store.delete(kind, "/", "a") for kind in kinds))
    filesystem.power_cut()

    assert await load(tmp_path / "metadata") == []
