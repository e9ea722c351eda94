"""Marks of transactions: cut where one begins or ends, and forgotten once written."""

from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.storing.transaction_marks import Piece, TransactionMarks
from appendlog import encode_message
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.format import CHUNK_HEADER_BYTES, CHUNK_MAGIC_BYTES, FLAG_TRANSACTION
from tests.broker.store_bench import RING_SLOTS, MakeBench, StoreBench, numbered_message

ONE, TWO = b"1" * 16, b"2" * 16


def test_nothing_marked_is_one_piece() -> None:
    marks = TransactionMarks()
    assert not marks
    assert marks.pieces(3, 9) == [Piece(3, 9, b"")]


def test_a_mark_is_cut_at_its_borders_and_at_those_of_the_request() -> None:
    marks = TransactionMarks()
    marks.add(2, 5, ONE)
    marks.add(5, 8, TWO)
    assert marks.pieces(0, 6) == [Piece(0, 2, b""), Piece(2, 5, ONE), Piece(5, 6, TWO)]
    assert marks
    assert marks.pieces(6, 10) == [Piece(6, 8, TWO), Piece(8, 10, b"")]
    assert not marks


def test_a_transaction_that_continues_stays_one_mark_and_an_empty_one_is_none() -> None:
    marks = TransactionMarks()
    marks.add(2, 2, ONE)
    assert not marks
    marks.add(2, 5, ONE)
    marks.add(5, 8, ONE)
    assert marks.pieces(2, 8) == [Piece(2, 8, ONE)]
    assert not marks, "what ends with the request is forgotten"


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5), st.sampled_from([ONE, TWO]))),
    st.lists(st.integers(1, 12), min_size=1),
)
def test_pieces_cover_every_offset_once_with_its_own_mark(
    gaps: list[tuple[int, int, bytes]], requests: list[int]
) -> None:
    marks = TransactionMarks()
    expected: dict[int, bytes] = {}
    end = 0
    for gap, length, transaction_id in gaps:
        start, end = end + gap, end + gap + length
        marks.add(start, end, transaction_id)
        expected.update(dict.fromkeys(range(start, end), transaction_id))
    found: list[bytes] = []
    for length in requests:
        for piece in marks.pieces(len(found), len(found) + length):
            assert piece.start == len(found)
            found += [piece.transaction_id] * (piece.end - piece.start)
    assert found == [expected.get(offset, b"") for offset in range(len(found))]


def test_chunks_of_a_transaction_carry_its_id_and_nothing_else(bench: MakeBench) -> None:
    made = bench(is_journaled=True, flush_bytes=200)
    store = made.store
    transient = encode_message(0, b"", b"q", b"\x00\x00", b"transient")
    store.append([numbered_message(number) for number in range(3)], persistent=True)
    for transaction_id, count in ((ONE, 5), (TWO, 1)):
        start = store.end_offset
        store.append([numbered_message(number) for number in range(count)], persistent=True)
        store.append([transient], persistent=False)
        store.mark_transaction(start, store.end_offset, transaction_id)
    store.append([numbered_message(9)], persistent=True)
    made.until(lambda: store.recovery_point == 12)
    assert made.log.transaction_counts(0) == {ONE: 5, TWO: 1}
    assert made.log.transaction_counts(9) == {TWO: 1}
    assert made.log.transaction_counts(12) == {}
    assert made.logged() == dict(enumerate(store.read(0, 12)))
    assert chunks(made) == [
        (0, 3, b""),
        (3, 3, ONE),
        (6, 3, ONE),
        (9, 2, TWO),
        (11, 1, b""),
    ]


def test_a_transaction_that_does_not_fit_the_ring_is_written_whole(bench: MakeBench) -> None:
    made = bench(is_journaled=True, flush_bytes=16 * 1024)
    store = made.store
    made.publish(RING_SLOTS - 10)
    made.publish(RING_SLOTS)
    assert store.is_stalled
    store.mark_transaction(RING_SLOTS - 10, store.end_offset, ONE)
    made.publish(5)
    made.until(lambda: store.recovery_point == store.end_offset)
    assert made.log.transaction_counts(RING_SLOTS - 10) == {ONE: RING_SLOTS}
    made.assert_all_readable()


def chunks(made: StoreBench) -> list[tuple[int, int, bytes]]:
    """Return base offset, count and transaction id of every chunk in the log."""
    (path,) = made.directory.glob("*.log")
    octets = path.read_bytes()
    found = []
    at = octets.find(CHUNK_MAGIC_BYTES)
    while 0 <= at < len(octets):
        header = decode_chunk_header(octets, at)
        start = at + CHUNK_HEADER_BYTES
        transaction_id = octets[start : start + 16] if header.flags & FLAG_TRANSACTION else b""
        found.append((header.base_offset, header.record_count, transaction_id))
        at += header.chunk_bytes
    return found


@given(st.integers(1, 29), st.data())
def test_pieces_that_are_put_back_come_out_again(cut: int, data: st.DataObject) -> None:
    """A request that failed is made anew, from where the log ends by then."""
    marks, same = TransactionMarks(), TransactionMarks()
    for each in (marks, same):
        each.add(2, 9, ONE)
        each.add(9, 14, TWO)
        each.add(20, 26, ONE)
    marks.put_back(marks.pieces(0, cut))
    end = data.draw(st.integers(0, 30))
    same.pieces(0, end) if end else None
    marks.forget(end)
    assert marks.pieces(end, 31) == same.pieces(end, 31)
