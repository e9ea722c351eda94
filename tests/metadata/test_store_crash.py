"""A machine that stops, or a disk that fails, at every operation of the metadata store."""

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from metadata.document import Document
from metadata.errors import DocumentWriteError
from metadata.store import MetadataStore
from tests.metadata.faulty_files import FaultyFiles, StoppedError


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


@pytest.mark.crash
@pytest.mark.parametrize("written_bytes", [0, 10, 10_000])
async def test_a_stop_at_any_operation_leaves_the_old_or_the_new_state(
    tmp_path: Path, written_bytes: int
) -> None:
    for stop_at in range(1000):
        root = tmp_path / str(stop_at) / "metadata"
        root.parent.mkdir()
        files = FaultyFiles(stop_at, StoppedError(), written_bytes)
        store = MetadataStore(root, files)
        completed = 0
        with suppress(StoppedError, ExceptionGroup):
            async for _ in make_changes(store):
                completed += 1
        assert await load(root) in STATES[completed : completed + 2]
        if completed == len(STATES) - 1:
            return
    raise AssertionError


@pytest.mark.crash
async def test_a_disk_error_at_any_operation_fails_that_call_and_later_ones_succeed(
    tmp_path: Path,
) -> None:
    for fault_at in range(1000):
        root = tmp_path / str(fault_at) / "metadata"
        root.parent.mkdir()
        files = FaultyFiles(fault_at, OSError(28, "No space left on device"), written_bytes=5)
        store = MetadataStore(root, files)
        failures = []
        for number in (1, 1, 2, 2):
            try:
                await store.put(queue("q", number))
            except DocumentWriteError as error:
                failures.append((error.path, error.cause))
        assert await load(root) == [queue("q", 2)]
        if not failures:
            return
        assert failures == [(root / "queues" / "%2f" / "q.json", files.fault)]
    raise AssertionError
