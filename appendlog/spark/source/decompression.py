"""Bodies that publishers compressed, as what they were before.

Of a message whose `content_encoding` is one of ours, the body is unpacked and the encoding becomes
null, since the body has none any more. What cannot be unpacked (other bytes than the encoding
says, or more of them than a bound) stays as it was published, with its encoding: so rows tell.
"""

import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

ENCODING: Final = "content_encoding"
BODY: Final = "value"
BODY_BYTES_MAX: Final = 128 << 20
"""Of an unpacked body: a few bytes can be made to unpack to any number."""
BATCH_BYTES: Final = 8 << 20
_PIECE_BYTES: Final = 4096
_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32
_RAW: Final = -zlib.MAX_WBITS
_KINDS: Final = {
    "gzip": (_GZIP_OR_ZLIB,),
    "x-gzip": (_GZIP_OR_ZLIB,),
    # Senders disagree whether it has a header.
    "deflate": (_GZIP_OR_ZLIB, _RAW),
}


def decompressed(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Return the rows of a batch, in order, with bodies unpacked; in one batch or several.

    Each has about `BATCH_BYTES` of bodies, or one body if that is larger.

    Args:
        batch: With the columns `content_encoding` and `value`.
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
            body, encodings[row] = unpacked, None
        if bodies and size_bytes + len(body) > BATCH_BYTES:
            yield _replaced(batch.slice(start, len(bodies)), bodies, encodings[start:row])
            start, size_bytes, bodies = row, 0, []
        bodies.append(body)
        size_bytes += len(body)
    yield _replaced(batch.slice(start), bodies, encodings[start:])


def _kinds(encoding: str | None) -> tuple[int, ...]:
    """Return in which ways a body of an encoding may be packed; none of one that is not ours."""
    return () if encoding is None else _KINDS.get(encoding.strip().lower(), ())


def _unpack(body: bytes, kinds: tuple[int, ...]) -> bytes | None:
    """Return a body unpacked; None when it is none of the kinds, or too large."""
    for kind in kinds:
        try:
            return _inflate(body, kind)
        except zlib.error:
            continue
    return None


def _inflate(body: bytes, kind: int) -> bytes | None:
    """Return what all parts of a body unpack to; gzip may have several."""
    parts: list[bytes] = []
    left, at = BODY_BYTES_MAX, 0
    while at < len(body):
        stream = zlib.decompressobj(kind)
        while not stream.eof:
            # In pieces: what stands behind a part is copied at its end, and there may be a
            # part for each 20 bytes.
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
