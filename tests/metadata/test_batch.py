"""Batches: many documents of which a crash, a power cut or a failing disk leaves all or none."""

import asyncio
import errno
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from metadata.document import Document, encode_document
from metadata.document_files import DocumentFiles
from metadata.errors import DocumentFormatError, DocumentWriteError
from metadata.loading import load_documents
from metadata.paths import document_path
from metadata.redo_file import REDO_NAME, redo_pieces
from metadata.store import MetadataStore
from tests.faults.faulty_filesystem import FaultyFileSystem, StoppedError


def queue(name: str, number: int) -> Document:
    return Document("queues", "/", name, {"number": number})


OLD = [queue("a", 1), queue("b", 1)]
NEW = [Document("bindings", "/", "x", {}), queue("a", 1), queue("b", 2), queue("c", 2)]
IN_BATCH = [each for each in NEW if each not in OLD]


async def write_batch(store: MetadataStore) -> None:
    batch = store.open_batch()
    for document in IN_BATCH:
        batch.put(document)
    await batch.commit()
    await batch.finished()


async def make_old(root: Path, filesystem: FaultyFileSystem) -> MetadataStore:
    store = MetadataStore(root, DocumentFiles(filesystem))
    for document in OLD:
        await store.put(document)
    return store


async def loaded(root: Path) -> list[Document]:
    """Load as the next start does, twice: it must leave what it has found."""
    report = await MetadataStore(root).load()
    assert report.unreadable == []
    again = await MetadataStore(root).load()
    assert again.documents == report.documents
    assert not again.unfinished_batch
    assert not temporaries(root)
    assert not (root / REDO_NAME).exists()
    return report.documents


def temporaries(root: Path) -> list[Path]:
    return list(root.rglob("*.tmp"))


async def test_a_batch_creates_and_replaces_documents(tmp_path: Path) -> None:
    store = await make_old(tmp_path / "metadata", FaultyFileSystem(tmp_path))
    await write_batch(store)
    assert store.is_idle
    assert await loaded(tmp_path / "metadata") == NEW


async def test_a_batch_syncs_the_file_system_once(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    store = MetadataStore(tmp_path / "metadata", DocumentFiles(filesystem))
    batch = store.open_batch()
    for number in range(500):
        batch.put(queue(str(number), number))
    await batch.commit()
    await batch.finished()
    syncs = [each for each in filesystem.operations if "sync" in each]
    assert syncs.count("sync_filesystem") == 1
    assert len(syncs) < 8


async def test_a_batch_syncs_each_file_where_a_file_system_is_not_synced_as_a_whole(
    tmp_path: Path,
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    filesystem.is_whole = False
    store = MetadataStore(tmp_path / "metadata", DocumentFiles(filesystem))
    batch = store.open_batch()
    for number in range(20):
        batch.put(queue(str(number), number))
    await batch.commit()
    await batch.finished()
    assert "sync_filesystem" not in filesystem.operations
    assert filesystem.operations.count("fsync") >= 20


@pytest.mark.crash
@pytest.mark.parametrize(
    ("seed", "is_whole"),
    [(None, True), (0, True), (1, True), (2, True), (3, True), (None, False), (4, False)],
)
async def test_a_power_cut_at_any_operation_leaves_all_or_nothing(
    tmp_path: Path, seed: int | None, is_whole: bool
) -> None:
    seen = set()
    for stop_at in range(1000):
        top = tmp_path / str(stop_at)
        top.mkdir()
        filesystem = FaultyFileSystem(top)
        filesystem.is_whole = is_whole
        store = await make_old(top / "metadata", filesystem)
        filesystem.fail_at = len(filesystem.operations) + stop_at
        filesystem.error = StoppedError()
        is_done = False
        with suppress(StoppedError):
            await write_batch(store)
            is_done = True
        filesystem.power_cut(None if seed is None else random.Random(f"{seed} {stop_at}"))
        documents = await loaded(top / "metadata")
        assert documents == NEW or (documents == OLD and not is_done)
        seen.add(documents == NEW)
        if is_done:
            assert seen == {True, False}
            return
    raise AssertionError


@pytest.mark.crash
async def test_a_power_cut_while_the_next_start_completes_it_leaves_all(tmp_path: Path) -> None:
    for stop_at in range(1000):
        top = tmp_path / str(stop_at)
        root = top / "metadata"
        top.mkdir()
        await make_old(root, FaultyFileSystem(top))
        (root / REDO_NAME).write_bytes(redo_of(root))
        (root / "queues" / "%2f" / "c.json").write_bytes(b"torn")
        filesystem = FaultyFileSystem(top, stop_at, StoppedError())
        is_done = False
        with suppress(StoppedError):
            report = await MetadataStore(root, DocumentFiles(filesystem)).load()
            assert report.documents == NEW
            is_done = True
        filesystem.power_cut(random.Random(stop_at))
        assert await loaded(root) == NEW
        if is_done:
            return
    raise AssertionError


def redo_of(root: Path) -> bytes:
    """Return what a crash behind the decision of the batch leaves."""
    contents = {
        document_path(root, each.kind, each.vhost, each.name): encode_document(each)
        for each in IN_BATCH
    }
    return b"".join(redo_pieces(root, contents))


@pytest.mark.crash
async def test_an_error_at_any_operation_refuses_the_batch_or_delays_it(tmp_path: Path) -> None:
    for fail_at in range(1000):
        top = tmp_path / str(fail_at)
        top.mkdir()
        filesystem = FaultyFileSystem(top)
        store = await make_old(top / "metadata", filesystem)
        filesystem.fail_at = len(filesystem.operations) + fail_at
        filesystem.error = errno.ENOSPC
        filesystem.failing_operations = 1
        try:
            await write_batch(store)
            expected = NEW
        except DocumentWriteError:
            expected = OLD
            await store.drain()
        assert store.is_idle
        is_last = len(filesystem.operations) <= filesystem.fail_at
        filesystem.fail_at = None
        # What follows is written as ever.
        await store.put(queue("a", 1))
        assert await loaded(top / "metadata") == expected
        assert not filesystem.open_count
        if is_last:
            return
    raise AssertionError


async def test_a_dead_disk_leaves_a_decided_batch_to_the_next_start(tmp_path: Path) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    store = await make_old(tmp_path / "metadata", filesystem)
    batch = store.open_batch()
    for document in IN_BATCH:
        batch.put(document)
    deleted = store.delete("queues", "/", "c")
    commit = asyncio.ensure_future(batch.commit())
    filesystem.sync_gate.clear()
    await asyncio.to_thread(filesystem.sync_waiting.wait)
    filesystem.sync_gate.set()
    await commit
    filesystem.fail_at = 0
    finished = asyncio.ensure_future(batch.finished())
    await store.drain()
    filesystem.fail_at = None
    outcome = (await asyncio.gather(finished, return_exceptions=True))[0]
    removed = (await asyncio.gather(deleted, return_exceptions=True))[0]
    documents = await loaded(tmp_path / "metadata")
    # A deletion that was confirmed is never undone, a refused one never done in part.
    assert (queue("c", 2) in documents) == (removed is not None)
    assert outcome is None or isinstance(outcome, DocumentWriteError)


async def test_a_deletion_behind_a_batch_is_carried_out_behind_it(tmp_path: Path) -> None:
    store = await make_old(tmp_path / "metadata", FaultyFileSystem(tmp_path))
    batch = store.open_batch()
    for document in IN_BATCH:
        batch.put(document)
    deleted = asyncio.ensure_future(store.delete("queues", "/", "c"))
    other = asyncio.ensure_future(store.put(queue("other", 1)))
    await other
    assert not deleted.done()
    await batch.commit()
    await batch.finished()
    await deleted
    assert await loaded(tmp_path / "metadata") == [
        *(each for each in NEW if each.name != "c"),
        queue("other", 1),
    ]


async def test_a_document_that_clients_change_while_the_batch_is_open_is_written_behind(
    tmp_path: Path,
) -> None:
    store = await make_old(tmp_path / "metadata", FaultyFileSystem(tmp_path))
    batch = store.open_batch()
    batch.put(queue("c", 2))
    # The binding waits for the batch, so the batch must not wait for the binding.
    binding = Document("bindings", "/", "x", {})
    bound = asyncio.ensure_future(store.put(binding, after=[("queues", "c")]))
    batch.put(Document("bindings", "/", "x", {"number": 2}))
    await batch.commit()
    await batch.finished()
    await bound
    await store.drain()
    assert await loaded(tmp_path / "metadata") == [
        Document("bindings", "/", "x", {"number": 2}),
        *OLD,
        queue("c", 2),
    ]


async def test_a_cancelled_batch_writes_nothing_and_holds_up_nothing(tmp_path: Path) -> None:
    store = await make_old(tmp_path / "metadata", FaultyFileSystem(tmp_path))
    batch = store.open_batch()
    for document in IN_BATCH:
        batch.put(document)
    replaced = asyncio.ensure_future(store.put(queue("a", 3)))
    needing = Document("bindings", "/", "y", {})
    bound = asyncio.ensure_future(store.put(needing, after=[("queues", "c")]))
    batch.cancel()
    await replaced
    with pytest.raises(DocumentWriteError):
        await bound
    await store.drain()
    assert await loaded(tmp_path / "metadata") == [queue("a", 3), queue("b", 1)]


async def test_the_virtual_host_is_not_cleared_before_the_batch_is_written(tmp_path: Path) -> None:
    store = await make_old(tmp_path / "metadata", FaultyFileSystem(tmp_path))
    batch = store.open_batch()
    for document in IN_BATCH:
        batch.put(document)
    cleared = asyncio.ensure_future(store.clear_vhost("%2f"))
    await batch.commit()
    await batch.finished()
    await cleared
    assert await loaded(tmp_path / "metadata") == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: content.replace(b'"number": 2', b'"number": 3'),
        lambda content: b"amqp-server batch 2\n" + content.partition(b"\n")[2],
        lambda _: b"",
    ],
)
async def test_a_damaged_redo_file_stops_the_start(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    root = tmp_path / "metadata"
    await make_old(root, FaultyFileSystem(tmp_path))
    (root / REDO_NAME).write_bytes(damage(redo_of(root)))
    with pytest.raises(DocumentFormatError, match=r"batch\.redo is damaged"):
        await MetadataStore(root).load()


async def test_tools_that_only_read_see_the_decided_batch(tmp_path: Path) -> None:
    root = tmp_path / "metadata"
    await make_old(root, FaultyFileSystem(tmp_path))
    (root / REDO_NAME).write_bytes(redo_of(root))
    assert load_documents(root, DocumentFiles()).documents == NEW
    assert (root / REDO_NAME).exists()
