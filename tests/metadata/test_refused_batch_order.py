"""A batch that is refused or cancelled leaves the order of other changes of its documents."""

import asyncio
from pathlib import Path

import pytest

from metadata.document import Document
from metadata.errors import DocumentWriteError
from metadata.names import encode_name
from metadata.store import MetadataStore
from tests.metadata.test_batch_without_room import (
    DOCUMENTS,
    CountedRoom,
    commit,
    decided,
    queue,
    store_on,
    written,
)


@pytest.fixture
def disk(tmp_path: Path) -> CountedRoom:
    return CountedRoom(tmp_path)


async def ended_again(store: MetadataStore, *names: str, is_cancelled: bool) -> None:
    """Let another batch of the same documents fail, while the first one waits for room."""
    if not is_cancelled:
        with pytest.raises(DocumentWriteError, match="No space left"):
            await commit(store, *names)
        return
    batch = store.open_batch()
    for name in names:
        batch.put(queue(name))
    batch.cancel()


async def loaded(disk: CountedRoom) -> dict[str, object]:
    store = store_on(disk)
    report = await store.load()
    await store.close()
    return {each.name: each.body["number"] for each in report.documents}


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_what_follows_comes_after_the_decided_batch(
    disk: CountedRoom, is_cancelled: bool, times: int
) -> None:
    """Else the decided batch brings back what was deleted, and the older of two values."""
    store = await decided(disk, "deleted", "changed")
    for _ in range(times):
        await ended_again(store, "deleted", "changed", is_cancelled=is_cancelled)
    while len(store._rounds._batches) > 1:  # noqa: ASYNC110 - the end of a task inside
        await asyncio.sleep(0)
    deletion = asyncio.ensure_future(store.delete("queues", "/", "deleted"))
    change = asyncio.ensure_future(store.put(Document("queues", "/", "changed", {"number": 2})))
    await written(store, disk)
    await asyncio.gather(deletion, change)
    await store.close()
    assert await loaded(disk) == {"changed": 2, "old": 1}


async def test_of_two_open_batches_that_fail_none_is_waited_for(disk: CountedRoom) -> None:
    store = await decided(disk, "a")
    batches = [store.open_batch() for _ in range(2)]
    for batch in batches:
        batch.put(queue("a"))
    for batch in batches:
        batch.cancel()
    deletion = asyncio.ensure_future(store.delete("queues", "/", "a"))
    await written(store, disk)
    async with asyncio.timeout(60):
        await deletion
        await store.close()
    assert await loaded(disk) == {"old": 1}


async def test_a_file_that_nobody_expects_is_still_one_after_a_cancelled_batch(
    disk: CountedRoom,
) -> None:
    store = store_on(disk)
    await store.put(queue("old"))
    disk.full = DOCUMENTS
    with pytest.raises(DocumentWriteError):
        await store.put(queue("dependent"), after=[("queues", "old")])
    left = store._rounds.left(encode_name("/"))
    assert [path.name for path in left] == ["dependent.json"]
    batch = store.open_batch()
    batch.put(queue("dependent"))
    batch.cancel()
    await store.drain()
    assert store._rounds.left(encode_name("/")) == left
    disk.full = None
    await store.close()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_what_waits_for_a_batch_that_fails_waits_for_the_decided_one(
    disk: CountedRoom, is_cancelled: bool
) -> None:
    store = await decided(disk, "a")
    batch = store.open_batch()
    batch.put(queue("a"))
    deletion = asyncio.ensure_future(store.delete("queues", "/", "a"))
    if is_cancelled:
        batch.cancel()
    else:
        with pytest.raises(DocumentWriteError):
            await batch.commit()
    while len(store._rounds._batches) > 1:  # noqa: ASYNC110 - the end of a task inside
        await asyncio.sleep(0)
    await written(store, disk)
    await deletion
    await store.close()
    assert await loaded(disk) == {"old": 1}


async def test_nothing_overtakes_a_decided_batch_that_a_stop_leaves_to_the_next_start(
    disk: CountedRoom,
) -> None:
    store = await decided(disk, "a")
    batch = store.open_batch()
    batch.put(queue("a"))
    deletion = asyncio.ensure_future(store.delete("queues", "/", "a"))
    batch.cancel()
    # The disk is still full: the stop ends the attempts.
    await store.close()
    with pytest.raises(DocumentWriteError, match="No space left"):
        await deletion
    disk.full = None
    assert await loaded(disk) == {"a": 1, "old": 1}


async def test_of_two_open_batches_that_are_closed_together_none_is_lost(
    disk: CountedRoom,
) -> None:
    """There is one redo file: the second would replace that of the first one."""
    store = store_on(disk)
    await store.put(queue("old"))
    batches = {name: store.open_batch() for name in ("a", "b")}
    for name, batch in batches.items():
        batch.put(queue(name))
    commits = [asyncio.ensure_future(batch.commit()) for batch in batches.values()]
    disk.full = DOCUMENTS
    await commits[0]
    with pytest.raises(DocumentWriteError, match="No space left"):
        await commits[1]
    await store.close()
    disk.full = None
    assert await loaded(disk) == {"a": 1, "old": 1}
