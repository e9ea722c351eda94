# C types for the names of _headers_py.py, compiled as _headers_c.

cimport cython

ctypedef const unsigned char *octets_t

cdef bint COMPILED
cdef int _CONTENT_TYPE
cdef int _CONTENT_ENCODING
cdef int _HEADERS
cdef int _DEPTH_MAX
cdef bytes _OFFSET_KEY
cdef int _OFFSET_ENTRY_BYTES


@cython.locals(
    size=cython.Py_ssize_t,
    data=octets_t,
    at=cython.Py_ssize_t,
    flags=cython.int,
    entries=bytes,
    behind=cython.Py_ssize_t,
    before=bytes,
)
cpdef tuple split_for_offset(bytes properties)


@cython.locals(at=cython.Py_ssize_t, flags=cython.int)
cpdef Py_ssize_t headers_position(
    octets_t data, Py_ssize_t start, Py_ssize_t end
) except -1


cdef Py_ssize_t _short_string_end(octets_t data, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(
    data=octets_t,
    kept=list,
    start=cython.Py_ssize_t,
    entry=cython.Py_ssize_t,
)
cdef bytes _other_entries(bytes properties, Py_ssize_t at, Py_ssize_t end)


@cython.locals(key_bytes=cython.Py_ssize_t)
cdef bint _is_offset(octets_t data, Py_ssize_t at)


@cython.locals(kind=cython.int, stop=cython.Py_ssize_t)
cdef Py_ssize_t _value_end(
    octets_t data, Py_ssize_t at, Py_ssize_t end, int depth
) noexcept


@cython.locals(value=cython.longlong)
cdef long long _u32(octets_t data, Py_ssize_t at) noexcept
