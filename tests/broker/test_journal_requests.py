"""What is handed to the flusher: all messages in order, in chunks and requests of bounded size."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_server.broker.storing.journal_requests import (
    BATCH_MESSAGES_MAX,
    CHUNK_MESSAGES_MAX,
    REQUEST_BYTES_MAX,
    TRANSACTIONS_MESSAGES_MAX,
    JournalRequests,
)
from appendlog import FlushRequest, Log
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.large_chunk import joined_chunk
from ring import PagePool, Ring
from tests.appendlog.builders import IDENTITY
from tests.broker.store_bench import numbered_message

CHUNK_BYTES_MAX = 4096
LARGE_BYTES = 1 << 20


Ranges = list[tuple[int, int]]


def requests_for(
    directory: Path,
    messages: list[bytes],
    ranges: Ranges | None = None,
    chunk_bytes_max: int = CHUNK_BYTES_MAX,
    transaction: tuple[int, int] | None = None,
) -> tuple[Log, list[FlushRequest]]:
    """Return the requests that write the messages, or some ranges of them, and the log."""
    log, _ = Log.open(directory, IDENTITY)
    ring = Ring(65_536, 1 << 30, PagePool(1 << 30))
    assert ring.try_claim(messages, 0) == len(messages)
    ring.publish(messages)
    requests = JournalRequests(log, chunk_bytes_max)
    if transaction is not None:
        requests.mark_transaction(*transaction, bytes(range(16)))
    made: list[FlushRequest] = []
    left = [(0, ring.cursor)] if ranges is None else ranges
    while left:
        made.append(requests.make(ring, left, sync=False))
        done = made[-1].append.end_offset
        left = [(max(start, done), end) for start, end in left if end > done]
        log.append(made[-1].append)
    return log, made


def written(log: Log) -> list[bytes]:
    return list(by_offset(log).values())


def by_offset(log: Log) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at < log.log_end_offset:
        result = log.read(at, 1 << 30, 1 << 20)
        found.update(zip(result.offsets, result.messages, strict=True))
        at = result.next_offset
    return found


@pytest.fixture
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 0.0)


@settings(max_examples=settings().max_examples * 3 // 10, deadline=None)
@given(
    st.lists(
        st.one_of(st.integers(0, 64), st.integers(3_000, 9_000), st.just(LARGE_BYTES)),
        min_size=1,
        max_size=60,
    )
)
def test_messages_of_any_sizes_are_written_in_order_and_within_bounds(sizes: list[int]) -> None:
    messages = [numbered_message(number, 8 * (size // 8)) for number, size in enumerate(sizes)]
    with TemporaryDirectory() as directory:
        log, made = requests_for(Path(directory) / "log", messages)
        assert written(log) == messages
        log.close()
    for request in made:
        assert (
            sum(map(len, request.append.chunks)) < REQUEST_BYTES_MAX + CHUNK_BYTES_MAX + LARGE_BYTES
        )
        for chunk in request.append.chunks:
            header = decode_chunk_header(joined_chunk(chunk))
            assert header.record_count == 1 or header.body_bytes <= CHUNK_BYTES_MAX


def test_small_messages_fill_their_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 1_000.0)
    messages = [numbered_message(number) for number in range(10_000)]
    log, made = requests_for(tmp_path / "log", messages)
    assert len(made) == 1
    assert len(made[0].append.chunks) <= 1 + sum(map(len, messages)) / (0.9 * CHUNK_BYTES_MAX)
    log.close()


@settings(max_examples=settings().max_examples * 3 // 10, deadline=None)
@given(st.sets(st.integers(0, 400), min_size=2), st.integers(100, 9_000))
def test_messages_with_gaps_keep_their_offsets(borders: set[int], size: int) -> None:
    ordered = sorted(borders)
    ranges = list(pairwise(ordered))[::2]
    messages = [numbered_message(number, size) for number in range(ordered[-1])]
    with TemporaryDirectory() as directory:
        log, made = requests_for(Path(directory) / "log", messages, ranges)
        assert by_offset(log) == {
            offset: messages[offset] for start, end in ranges for offset in range(start, end)
        }
        log.close()
    assert all(request.append.chunks for request in made)


@pytest.mark.usefixtures("one_step_a_slice")
@pytest.mark.parametrize("step", [1, 2], ids=["without gaps", "with gaps"])
def test_a_request_ends_with_the_slice_and_the_next_one_goes_on(tmp_path: Path, step: int) -> None:
    messages = [numbered_message(number) for number in range(1_000)]
    ranges = [(0, 1_000)] if step == 1 else [(at, at + 1) for at in range(0, 1_000, step)]
    log, made = requests_for(tmp_path / "log", messages, ranges)
    assert len(made) > 1
    assert {len(request.append.chunks) for request in made} == {1}
    assert written(log) == messages[::step]
    log.close()


@pytest.mark.parametrize(("step", "count_max"), [(1, CHUNK_MESSAGES_MAX), (2, BATCH_MESSAGES_MAX)])
def test_a_chunk_of_tiny_messages_is_bounded_by_their_number(
    tmp_path: Path, step: int, count_max: int
) -> None:
    messages = [numbered_message(number, 8) for number in range(3 * count_max * step)]
    ranges = [(0, len(messages))]
    if step > 1:
        ranges = [(at, at + 1) for at in range(0, len(messages), step)]
    log, made = requests_for(tmp_path / "log", messages, ranges, 1 << 20)
    counts = [
        decode_chunk_header(joined_chunk(chunk)).record_count
        for request in made
        for chunk in request.append.chunks
    ]
    assert counts == [count_max] * 3
    log.close()


def test_a_request_of_a_transaction_is_bounded_by_its_messages(tmp_path: Path) -> None:
    messages = [numbered_message(number, 8) for number in range(TRANSACTIONS_MESSAGES_MAX + 100)]
    log, made = requests_for(
        tmp_path / "log", messages, None, 1 << 20, transaction=(50, len(messages))
    )
    assert [request.append.end_offset for request in made] == [
        TRANSACTIONS_MESSAGES_MAX,
        len(messages),
    ]
    assert written(log) == messages
    log.close()
