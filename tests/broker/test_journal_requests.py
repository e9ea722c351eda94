"""What is handed to the flusher: all messages in order, in chunks and requests of bounded size."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from amqp_server.broker.storing.journal_requests import REQUEST_BYTES_MAX, JournalRequests
from appendlog import FlushRequest, Log
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.large_chunk import joined_chunk
from ring import PagePool, Ring
from tests.appendlog.builders import IDENTITY
from tests.broker.store_bench import numbered_message

CHUNK_BYTES_MAX = 4096
LARGE_BYTES = 1 << 20


def requests_for(directory: Path, messages: list[bytes]) -> tuple[Log, list[FlushRequest]]:
    """Return the requests that write the messages, and the log behind them."""
    log, _ = Log.open(directory, IDENTITY)
    ring = Ring(16_384, 1 << 30, PagePool(1 << 30))
    assert ring.try_claim(messages, 0) == len(messages)
    ring.publish(messages)
    requests = JournalRequests(log, CHUNK_BYTES_MAX)
    made: list[FlushRequest] = []
    start = 0
    while start < ring.cursor:
        made.append(requests.make(ring, [(start, ring.cursor)], sync=False))
        start = made[-1].append.end_offset
        log.append(made[-1].append)
    return log, made


def written(log: Log) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < log.log_end_offset:
        found += log.read(len(found), 1 << 30, 1 << 20).messages
    return found


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
        assert sum(map(len, request.chunks)) < REQUEST_BYTES_MAX + CHUNK_BYTES_MAX + LARGE_BYTES
        for chunk in request.chunks:
            header = decode_chunk_header(joined_chunk(chunk))
            assert header.record_count == 1 or header.body_bytes <= CHUNK_BYTES_MAX


def test_small_messages_fill_their_chunks(tmp_path: Path) -> None:
    messages = [numbered_message(number) for number in range(10_000)]
    log, made = requests_for(tmp_path / "log", messages)
    assert len(made) == 1
    assert len(made[0].chunks) <= 1 + sum(map(len, messages)) / (0.9 * CHUNK_BYTES_MAX)
    log.close()
