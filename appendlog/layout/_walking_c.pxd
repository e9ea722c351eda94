# C types for the names of _walking_py.py, compiled as _walking_c.

cimport cython

from appendlog.layout cimport _memory_c as memory
from appendlog.layout._memory_c cimport octets_t

cdef int SUMS
cdef int SUM_BASE_OFFSET
cdef int SUM_FIRST_TIMESTAMP
cdef long long _OFFSET_MAX
cdef long long _CHUNK_BYTES_MAX


@cython.locals(
    octets=octets_t,
    offset_places="long long[::1]",
    timestamp_places="long long[::1]",
    position_places="unsigned int[::1]",
    length_places="unsigned int[::1]",
    stop=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    room=cython.Py_ssize_t,
    count=cython.Py_ssize_t,
    base_offset=cython.longlong,
    next_offset=cython.longlong,
    previous_end=cython.longlong,
    offset=cython.longlong,
    size=cython.longlong,
    delta=cython.longlong,
    timestamp_delta=cython.longlong,
    first_timestamp_ns=cython.longlong,
    room_bytes=cython.longlong,
)
cpdef tuple walk_chunks(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    unsigned int salt,
    long long from_offset,
    long long until_offset,
    long long max_records,
    long long max_bytes,
    offsets,
    timestamps_ns,
    positions,
    lengths,
)


@cython.locals(
    octets=octets_t,
    places="long long[::1]",
    stop=cython.Py_ssize_t,
)
cpdef Py_ssize_t sum_chunks(
    data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t begin_before,
    unsigned int salt,
    long long minimum_offset,
    sums,
) except -1


@cython.locals(
    octets=octets_t,
    at_places="unsigned int[::1]",
    size_places="unsigned int[::1]",
    end=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    messages=list,
)
cpdef list cut_messages(
    data, positions, lengths, Py_ssize_t start, Py_ssize_t stop
)


@cython.locals(last_timestamp_ns=cython.longlong, min_expiry_ns=cython.longlong)
cdef void _add_up(
    octets_t octets, Py_ssize_t position, long long[::1] sums
) noexcept


@cython.locals(room=cython.Py_ssize_t, length=cython.longlong)
cdef Py_ssize_t _chunk_stop(
    octets_t octets, Py_ssize_t position, Py_ssize_t end
) noexcept


cdef bint _is_magic(
    octets_t octets, Py_ssize_t position, Py_ssize_t size
) noexcept


@cython.locals(base_offset=cython.longlong)
cdef bint _is_plausible(
    octets_t octets,
    Py_ssize_t position,
    unsigned int salt,
    long long minimum_offset,
) noexcept


@cython.locals(base_offset=cython.longlong)
cdef long long _end_offset(
    octets_t octets, Py_ssize_t position
) noexcept


@cython.locals(
    count=cython.longlong,
    last_delta=cython.longlong,
    previous_delta=cython.longlong,
    size=cython.longlong,
    delta=cython.longlong,
    _=cython.longlong,
)
cdef bint _records_fit(
    octets_t octets, Py_ssize_t position, Py_ssize_t at, Py_ssize_t stop
) noexcept
