# C types for the names of _writing_py.py, compiled as _writing_c.

cimport cython

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.string cimport memcpy

from amqp_server.protocol._headers_c cimport (
    body_position,
    count_offsets,
    headers_position,
    is_same,
    octets_of,
    octets_t,
    other_entries,
    place_in,
    readable_end,
    split_for_offset,
    u32,
)

cdef bint COMPILED
cdef int _FRAMES_BYTES
cdef bytes _DELIVER
cdef bytes _OFFSET_ENTRY


cdef inline bytearray unwritten(Py_ssize_t size):
    # The memory is not zeroed, because it is overwritten; the caller cuts off the rest.
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline void copy_octets(
    unsigned char *target, Py_ssize_t to, octets_t octets, Py_ssize_t at, Py_ssize_t size
) noexcept:
    memcpy(target + to, octets + at, size)


cdef inline void store_number(
    unsigned char *target, Py_ssize_t to, unsigned long long number, int size
) noexcept:
    # Store to local octets first. The compiler must assume that a store through `target` may
    # change `self`, and would otherwise write octet by octet.
    cdef unsigned char octets[8]
    cdef int place
    for place in range(size):
        octets[place] = number >> (8 * (size - 1 - place)) & 255
    memcpy(target + to, octets, size)


@cython.locals(
    writer=_Writer,
    room=cython.Py_ssize_t,
    message=bytes,
    number=cython.Py_ssize_t,
)
cpdef encode_deliveries(
    list messages,
    int channel,
    bytes consumer_tag,
    unsigned long long first_tag,
    bint redelivered,
    Py_ssize_t frame_max,
    long long first_offset=*,
)


@cython.locals(
    at_places="unsigned int[::1]",
    size_places="unsigned int[::1]",
    writer=_Writer,
    octets=octets_t,
    view_bytes=cython.Py_ssize_t,
    room=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    number=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
)
cpdef encode_run(
    buffer,
    positions,
    lengths,
    Py_ssize_t start,
    Py_ssize_t stop,
    int channel,
    bytes consumer_tag,
    unsigned long long first_tag,
    bint redelivered,
    Py_ssize_t frame_max,
    long long first_offset=*,
)


@cython.locals(writer=_Writer)
cpdef encode_content(
    bytes message, int channel, bytes before_route, bytes after_route, Py_ssize_t frame_max
)


cdef _Writer _delivery_writer(
    int channel,
    bytes consumer_tag,
    bint redelivered,
    Py_ssize_t frame_max,
    long long first_offset,
)


@cython.final
cdef class _Writer:
    cdef int channel
    cdef bytes method_head
    cdef Py_ssize_t tag_bytes
    cdef bytes before_route
    cdef bytes after_route
    cdef Py_ssize_t body_bytes_max
    cdef bint has_offset
    cdef bint may_repeat
    cdef Py_ssize_t method_bytes
    cdef bytes prefix
    cdef Py_ssize_t prefix_bytes
    cdef bytes start
    cdef bytes middle
    cdef bytes properties
    cdef bytes rest
    cdef bytes body_start
    cdef bytearray encoded
    cdef unsigned char *target
    cdef Py_ssize_t to
    cdef Py_ssize_t repeated_size
    cdef Py_ssize_t frames_bytes
    cdef list parts
    cdef octets_t model
    cdef Py_ssize_t route_end
    cdef Py_ssize_t properties_at
    cdef Py_ssize_t properties_bytes
    cdef Py_ssize_t headers_at
    cdef Py_ssize_t behind
    cdef bytes entries
    cdef Py_ssize_t entries_bytes
    cdef Py_ssize_t unreadable_bytes
    cdef bint is_rewritten

    @cython.locals(split=cython.Py_ssize_t)
    cdef Py_ssize_t room_for(self, Py_ssize_t message_bytes) noexcept

    cdef begin(self, Py_ssize_t room)

    cdef end(self)

    @cython.locals(
        prefix_bytes=cython.Py_ssize_t, start=cython.Py_ssize_t, is_whole=cython.bint
    )
    cdef int put(
        self,
        octets_t octets,
        Py_ssize_t at,
        Py_ssize_t size,
        unsigned long long tag,
        long long offset,
    ) except -1

    @cython.locals(
        route_end=cython.Py_ssize_t,
        properties=bytes,
        rest=bytes,
        properties_bytes=cython.Py_ssize_t,
        method_bytes=cython.Py_ssize_t,
    )
    cdef _change(self, bytes prefix)

    @cython.locals(size=cython.Py_ssize_t, parts=list, at=cython.Py_ssize_t, part=bytes)
    cdef _join(self, bytes body, unsigned long long tag, long long offset)

    @cython.locals(
        prefix_bytes=cython.Py_ssize_t,
        route_end=cython.Py_ssize_t,
        start=cython.Py_ssize_t,
        headers=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        table_bytes=cython.Py_ssize_t,
    )
    cdef int _look_at(self, octets_t octets, Py_ssize_t at, Py_ssize_t size) except -1

    @cython.locals(part=cython.Py_ssize_t)
    cdef void _write(
        self,
        octets_t octets,
        Py_ssize_t at,
        Py_ssize_t size,
        unsigned long long tag,
        long long offset,
    ) noexcept

    @cython.locals(start=cython.Py_ssize_t, head_bytes=cython.Py_ssize_t)
    cdef void _repeat(
        self, octets_t octets, Py_ssize_t at, Py_ssize_t size, unsigned long long tag
    ) noexcept

    @cython.locals(place=cython.Py_ssize_t)
    cdef void _write_properties(self, octets_t octets, Py_ssize_t at, long long offset) noexcept

    cdef void _copy(self, octets_t octets, Py_ssize_t at, Py_ssize_t size) noexcept

    cdef void _store(self, unsigned long long number, int size) noexcept
