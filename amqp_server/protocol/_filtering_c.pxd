# C types for the names of _filtering_py.py, compiled as _filtering_c.

cimport cython

from amqp_server.protocol._headers_c cimport (
    body_position,
    has_key,
    headers_position,
    is_same,
    octets_of,
    octets_t,
    place_in,
    short_string_end,
    u32,
    value_end,
)

cdef bint COMPILED
cdef int _HEADERS
cdef bytes _FILTER_KEY


@cython.locals(matcher=_Matcher, message=bytes)
cpdef list matching_messages(list messages, frozenset values, bint match_unfiltered)


@cython.locals(
    at_places="unsigned int[::1]",
    size_places="unsigned int[::1]",
    octets=octets_t,
    view_bytes=cython.Py_ssize_t,
    matcher=_Matcher,
    index=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
)
cpdef list matching_run(
    buffer,
    positions,
    lengths,
    Py_ssize_t start,
    Py_ssize_t stop,
    frozenset values,
    bint match_unfiltered,
)


@cython.final
cdef class _Matcher:
    cdef frozenset values
    cdef bint match_unfiltered
    cdef list ranges
    cdef Py_ssize_t place
    cdef Py_ssize_t first
    cdef bytes prefix
    cdef octets_t model
    cdef Py_ssize_t prefix_bytes
    cdef bint is_match

    @cython.locals(prefix_bytes=cython.Py_ssize_t)
    cdef int look_at(self, octets_t octets, Py_ssize_t at, Py_ssize_t size) except -1

    cdef list end(self)

    cdef bint _is_alike(self, octets_t octets, Py_ssize_t at) noexcept

    @cython.locals(
        start=cython.Py_ssize_t,
        flags=cython.int,
        stop=cython.Py_ssize_t,
        value=cython.Py_ssize_t,
        entry=cython.Py_ssize_t,
        behind_key=cython.Py_ssize_t,
        is_string=cython.bint,
    )
    cdef int _judge(self, octets_t octets, Py_ssize_t at, Py_ssize_t end) except -1
