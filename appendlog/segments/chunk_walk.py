"""Walking the chunks of a buffer whether they are compressed or not."""

from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.compression import expand_chunk
from appendlog.layout.records import WALK_COMPRESSED, WALK_END, WALK_FAULT, walk_chunks


def walk(
    data: bytes,
    salt: int,
    from_offset: int,
    until_offset: int,
    max_records: int,
    max_bytes: int,
    offsets: list[int],
    timestamps_ns: list[int],
    messages: list[bytes],
) -> tuple[int, int, int]:
    """Walk all chunks of `data` as `walk_chunks` does, and open those that are packed.

    Returns:
        Status, position and next offset of `walk_chunks`; the status is never
        WALK_COMPRESSED. Where a limit is met inside a packed chunk, the position is its
        start, so that it will be opened again.
    """
    lists = offsets, timestamps_ns, messages
    position = 0
    while True:
        known = len(messages)
        status, position, from_offset = walk_chunks(
            data,
            position,
            len(data),
            salt,
            from_offset,
            until_offset,
            max_records,
            max_bytes,
            *lists,
        )
        if status != WALK_COMPRESSED:
            return status, position, from_offset
        max_records -= len(messages) - known
        max_bytes -= sum(map(len, messages[known:]))
        known = len(messages)
        stop = position + decode_chunk_header(data, position).chunk_bytes
        chunk = expand_chunk(data[position:stop])
        if chunk is None:
            return WALK_FAULT, position, from_offset
        status, walked, from_offset = walk_chunks(
            chunk, 0, len(chunk), salt, from_offset, until_offset, max_records, max_bytes, *lists
        )
        if walked < len(chunk):
            return status, position, from_offset
        position = stop
        max_records -= len(messages) - known
        max_bytes -= sum(map(len, messages[known:]))
        if max_records <= 0 or max_bytes <= 0 or from_offset >= until_offset:
            return WALK_END, position, from_offset
