"""Unpacks bodies that publishers compressed.

If the `content_encoding` of a message is gzip or deflate, the row has the unpacked body and a null
encoding. A body that cannot be unpacked (other bytes than the encoding says, or too large) stays as
it was published. Its row keeps the encoding, so that a reader sees that it is still compressed.
"""

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

ENCODING: Final = "content_encoding"
BODY: Final = "value"
BODY_BYTES_MAX: Final = 128 << 20
"""Largest unpacked body: a few bytes can unpack to any size."""
BATCH_BYTES: Final = 8 << 20
_PIECE_BYTES: Final = 4096
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_RAW: Final = -zlib.MAX_WBITS
_KINDS: Final = {
    "gzip": (_GZIP_OR_ZLIB,),
    "x-gzip": (_GZIP_OR_ZLIB,),
    # Some senders write deflate with a zlib header, some without.
    "deflate": (_GZIP_OR_ZLIB, _RAW),
}


def decompressed(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return the rows of a batch with unpacked bodies, in order, in one batch or several.

    Each batch has bodies of about `BATCH_BYTES`, or one body that is larger.

    Args:
        batch: Batch with the columns `content_encoding` and `value`.
    """
    encodings = batch.column(ENCODING).to_pylist()
    if not any(_kinds(encoding) for encoding in encodings):
        yield batch
        return
    column = batch.column(BODY)
    bodies: list[bytes] = []
    start = size_bytes = 0
    for row, encoding in enumerate(encodings):
        body = column[row].as_py()
        unpacked = _unpack(body, _kinds(encoding))
        if unpacked is not None:
            body = unpacked
            encodings[row] = None
        if bodies and size_bytes + len(body) > BATCH_BYTES:
            yield _replaced(batch.slice(start, len(bodies)), bodies, encodings[start:row])
            start = row
            size_bytes = 0
            bodies = []
        bodies.append(body)
        size_bytes += len(body)
    yield _replaced(batch.slice(start), bodies, encodings[start:])


def _kinds(encoding: str | None) -> tuple[int, ...]:
    """Return the formats to try for an encoding, as window bits of zlib; empty for others."""
    return () if encoding is None else _KINDS.get(encoding.strip().lower(), ())


def _unpack(body: bytes, kinds: tuple[int, ...]) -> bytes | None:
    """Return an unpacked body; None if it has none of the formats, or is too large."""
    for kind in kinds:
        try:
            return _inflate(body, kind)
        except zlib.error:
            continue
    return None


def _inflate(body: bytes, kind: int) -> bytes | None:
    """Return the unpacked parts of a body, joined; gzip may have several parts."""
    parts: list[bytes] = []
    left = BODY_BYTES_MAX
    at = 0
    while at < len(body):
        stream = zlib.decompressobj(kind)
        while not stream.eof:
            # In pieces: zlib copies all input after the end of a part, and a part may have as
            # few as 20 bytes.
            piece = stream.unconsumed_tail or body[at : at + _PIECE_BYTES]
            if not piece:
                raise zlib.error("cut off")
            if not stream.unconsumed_tail:
                at += len(piece)
            part = stream.decompress(piece, left + 1)
            left -= len(part)
            if left < 0:
                return None
            parts.append(part)
        at -= len(stream.unused_data)
    return b"".join(parts) if parts else None


def _replaced(
    batch: pa.RecordBatch, bodies: list[bytes], encodings: list[str | None]
) -> pa.RecordBatch:
    new = {BODY: pa.array(bodies, pa.binary()), ENCODING: pa.array(encodings, pa.string())}
    columns = [
        new.get(name, column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
