"""A decided batch on a full disk: it counts, nothing overwrites it, and it waits for room."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from appendlog.files.filesystem import Room
from metadata import write_rounds
from metadata.batch import BatchChange
from metadata.document import Document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentWriteError
from metadata.redo_file import REDO_NAME
from metadata.store import MetadataStore
from tests.crash.full_disk import FullDisk

DOCUMENTS = "/metadata/queues/"
"""Where the disk is full: the redo file of a batch still has room."""


def queue(name: str) -> Document:
    return Document("queues", "/", name, {"number": 1})


class CountedRoom(FullDisk):
    """A full disk that says how much room it has.

    Attributes:
        has: What it says; None: what the disk says.
    """

    has: Room | None = None

    def room(self, path: Path) -> Room:
        return self.has or super().room(path)


@pytest.fixture
def disk(tmp_path: Path) -> CountedRoom:
    return CountedRoom(tmp_path)


def store_on(disk: CountedRoom) -> MetadataStore:
    return MetadataStore(disk.root / "metadata", DocumentFiles(disk))


async def commit(store: MetadataStore, *names: str) -> None:
    batch = store.open_batch()
    for name in names:
        batch.put(queue(name))
    await batch.commit()


async def decided(disk: CountedRoom, *names: str) -> MetadataStore:
    """Return a store with a batch that is decided, and that the full disk has refused once."""
    store = store_on(disk)
    await store.put(queue("old"))
    disk.full = DOCUMENTS
    await commit(store, *names)
    await refused(store)
    return store


async def refused(store: MetadataStore) -> None:
    """Return when the disk has refused the documents of a batch."""
    async with asyncio.timeout(60):
        while not any(batch.refusal for batch in store._rounds._batches):  # noqa: ASYNC110 - state of the disk, so there is no event
            await asyncio.sleep(0.001)


def on_disk(disk: CountedRoom) -> list[str]:
    return sorted(path.name for path in (disk.root / "metadata").rglob("*") if path.is_file())


async def written(store: MetadataStore, disk: CountedRoom) -> None:
    """Return when the batch is written; there is room now."""
    disk.full = None
    async with asyncio.timeout(60):
        while (disk.root / "metadata" / REDO_NAME).exists():  # noqa: ASYNC110 - state of the disk, so there is no event
            await asyncio.sleep(0.001)
    await store.drain()


async def test_a_start_takes_its_documents_and_writes_them_when_there_is_room(
    disk: CountedRoom,
) -> None:
    await (await decided(disk, "a", "b")).close()
    store = store_on(disk)
    report = await store.load()
    assert [each.name for each in report.documents] == ["a", "b", "old"]
    assert (disk.root / "metadata" / REDO_NAME).exists()
    await written(store, disk)
    assert on_disk(disk) == ["a.json", "b.json", "old.json"]
    await store.close()


async def test_a_store_that_stops_before_leaves_it_to_the_next_start(disk: CountedRoom) -> None:
    await (await decided(disk, "a")).close()
    for _ in range(2):
        store = store_on(disk)
        assert [each.name for each in (await store.load()).documents] == ["a", "old"]
        await store.close()
    disk.full = None
    store = store_on(disk)
    assert [each.name for each in (await store.load()).documents] == ["a", "old"]
    await store.close()
    assert on_disk(disk) == ["a.json", "old.json"]


async def test_an_attempt_without_room_leaves_nothing_that_takes_room(disk: CountedRoom) -> None:
    await (await decided(disk, "a", "b", "old")).close()
    disk.full = "/b.json"
    store = store_on(disk)
    await store.load()
    # The new document that had found room is gone again; the one that it replaces stays.
    assert on_disk(disk) == [REDO_NAME, "old.json"]
    await store.close()


async def test_a_second_batch_is_refused_while_the_first_one_is_not_written(
    disk: CountedRoom,
) -> None:
    """There is one redo file: it would have replaced that of the first one."""
    store = await decided(disk, "a")
    disk.full = DOCUMENTS
    with pytest.raises(DocumentWriteError, match="No space left"):
        await commit(store, "b")
    await written(store, disk)
    await commit(store, "c")
    await store.drain()
    assert on_disk(disk) == ["a.json", "c.json", "old.json"]
    await store.close()


async def test_a_second_batch_that_waits_for_the_first_one_is_refused_with_it(
    disk: CountedRoom,
) -> None:
    store = store_on(disk)
    await store.put(queue("old"))
    disk.full = DOCUMENTS
    first = asyncio.ensure_future(commit(store, "a"))
    second = asyncio.ensure_future(commit(store, "b"))
    await first
    with pytest.raises(DocumentWriteError, match="No space left"):
        await second
    await written(store, disk)
    assert on_disk(disk) == ["a.json", "old.json"]
    await store.close()


async def test_a_second_batch_waits_for_the_first_one_where_there_is_room(
    disk: CountedRoom,
) -> None:
    store = store_on(disk)
    await asyncio.gather(commit(store, "a", "both"), commit(store, "b", "both"))
    await store.close()
    assert on_disk(disk) == ["a.json", "b.json", "both.json"]


async def test_a_disk_that_is_full_for_long_does_not_fill_the_log(
    disk: CountedRoom, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(write_rounds, "RETRY_SECONDS", (0.001,))
    attempts = 0
    note = write_rounds.WriteRounds._note_batch_refusal

    def counted(rounds: write_rounds.WriteRounds, batch: BatchChange, cause: OSError) -> None:
        nonlocal attempts
        attempts += 1
        note(rounds, batch, cause)

    monkeypatch.setattr(write_rounds.WriteRounds, "_note_batch_refusal", counted)
    store = await decided(disk, "a")
    async with asyncio.timeout(60):
        while attempts < 100:  # noqa: ASYNC110 - state of the disk, so there is no event
            await asyncio.sleep(0.001)
    lines = [line for line in caplog.messages if line.startswith("metadata batch not written")]
    # Attempts 1, 2, 4 and so on.
    assert attempts.bit_length() - 1 <= len(lines) <= attempts.bit_length() + 1
    await written(store, disk)
    await store.close()


@pytest.mark.parametrize(
    ("room", "reason"),
    [
        (Room(20_000, 4096, 100, 200), r"they need 2\d\d\d\d bytes, 20000 are free"),
        (Room(1 << 30, 4096, 4, 200), "the disk has no room for 5 documents: 4 inodes are free"),
    ],
)
async def test_a_batch_that_finds_no_room_is_refused_before_it_counts(
    disk: CountedRoom, room: Room, reason: str
) -> None:
    store = store_on(disk)
    await store.put(queue("old"))
    disk.has = room
    with pytest.raises(DocumentWriteError, match=reason) as refusal:
        await commit(store, *"abcde")
    assert refusal.value.cause.errno == errno.ENOSPC
    await store.drain()
    assert on_disk(disk) == ["old.json"]
    # A file system without a limit of inodes says 0 of 0.
    disk.has = Room(1 << 30, 4096, 0, 0)
    await commit(store, *"abcde")
    await store.close()
    assert len(on_disk(disk)) == 6


def test_the_room_of_a_real_disk_is_known(tmp_path: Path) -> None:
    room = CountedRoom(tmp_path).room(tmp_path)
    assert room.block_bytes == os.statvfs(tmp_path).f_frsize
    assert room.free_bytes > 0
