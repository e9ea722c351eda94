# C types for the names of _headers_py.py, compiled as _headers_c.

cimport cython

from libc.string cimport memcmp

ctypedef const unsigned char *octets_t

cdef int _CONTENT_TYPE
cdef int _CONTENT_ENCODING
cdef int _HEADERS
cdef int _DELIVERY_MODE
cdef int _PRIORITY
cdef int _CORRELATION_ID
cdef int _REPLY_TO
cdef int _DEPTH_MAX
cdef bytes _OFFSET_KEY
cdef bytes _CC
cdef bytes _BCC
cdef int _OFFSET_ENTRY_BYTES


cdef inline octets_t octets_of(const unsigned char[::1] view) noexcept:
    # The caller must keep the buffer alive.
    return &view[0]


cdef inline octets_t place_in(octets_t octets, Py_ssize_t at) noexcept:
    # The result is valid as long as the caller keeps the octets alive.
    return octets + at


cdef inline bint is_same(
    octets_t octets, Py_ssize_t at, octets_t other, Py_ssize_t size
) noexcept:
    return memcmp(octets + at, other, size) == 0


@cython.locals(
    size=cython.Py_ssize_t,
    data=octets_t,
    at=cython.Py_ssize_t,
    flags=cython.int,
    entries=bytes,
    behind=cython.Py_ssize_t,
    end=cython.Py_ssize_t,
    unreadable_bytes=cython.Py_ssize_t,
    before=bytes,
)
cpdef tuple split_for_offset(bytes properties)


@cython.locals(place=cython.Py_ssize_t, properties_bytes=cython.longlong)
cpdef Py_ssize_t body_position(octets_t octets, Py_ssize_t at, Py_ssize_t size) except -1


@cython.locals(
    size=cython.Py_ssize_t,
    data=octets_t,
    end=cython.Py_ssize_t,
    start=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    flags=cython.int,
    behind=cython.Py_ssize_t,
    properties_bytes=cython.Py_ssize_t,
)
cpdef object with_reply_to(bytes message, bytes before, bytes after)


@cython.locals(at=cython.Py_ssize_t, flags=cython.int)
cpdef Py_ssize_t headers_position(
    octets_t data, Py_ssize_t start, Py_ssize_t end
) except -1


cpdef Py_ssize_t short_string_end(octets_t data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(entry=cython.Py_ssize_t)
cpdef Py_ssize_t readable_end(octets_t data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(named=cython.int)
cpdef int copies_named(octets_t data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(count=cython.Py_ssize_t, entry=cython.Py_ssize_t)
cpdef Py_ssize_t count_offsets(octets_t data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(
    data=octets_t,
    end=cython.Py_ssize_t,
    kept=list,
    start=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    entry=cython.Py_ssize_t,
)
cpdef bytes other_entries(bytes entries)


@cython.locals(key_bytes=cython.Py_ssize_t)
cpdef bint has_key(
    octets_t data, Py_ssize_t at, Py_ssize_t end, bytes key
) noexcept


@cython.locals(kind=cython.int, stop=cython.Py_ssize_t)
cpdef Py_ssize_t value_end(
    octets_t data, Py_ssize_t at, Py_ssize_t end, int depth
) noexcept


@cython.locals(value=cython.longlong)
cpdef long long u32(octets_t data, Py_ssize_t at) noexcept
