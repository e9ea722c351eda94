# C types for the names of _columns_py.py, compiled as _columns_c.

cimport cython

from appendlog.layout cimport _memory_c as memory
from appendlog.layout._memory_c cimport octets_t

cdef int EXCHANGE
cdef int KEY
cdef int ENVELOPE
cdef int VALUE
cdef int PROPERTIES
cdef int FIELDS
cdef int _HEADERS
cdef int _DELIVERY_MODE
cdef int _PRIORITY
cdef int _TIMESTAMP
cdef long long _INT32_MAX
cdef unsigned long long _INT64_MAX
cdef unsigned long long _ALL_BITS
cdef long long _NANOSECONDS_PER_MICROSECOND


@cython.locals(
    octets=octets_t,
    found=object,
    places="long long *",
    position_places="unsigned int *",
    length_places="unsigned int *",
    field_places="int *",
    text_places="int *",
    start_places="long long *",
    end_places="int *",
    bit_places="unsigned char *",
    number_places="short *",
    time_places="long long *",
    count=cython.Py_ssize_t,
    slot_count=cython.Py_ssize_t,
    data_bytes=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    slot=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    stop=cython.Py_ssize_t,
    start=cython.longlong,
    size=cython.longlong,
    to=cython.Py_ssize_t,
    unreadable=cython.Py_ssize_t,
    bit=cython.int,
    number=cython.Py_ssize_t,
    field=cython.Py_ssize_t,
    text=bytes,
)
cpdef tuple find_fields(
    data,
    positions,
    lengths,
    long long base,
    Py_ssize_t row,
    Py_ssize_t room,
    fields,
    is_text,
    bint with_properties,
    starts,
    ends,
    bits,
    octet_numbers,
    seconds,
    bytearray extra,
)


@cython.locals(
    octets=octets_t,
    others=octets_t,
    stores="unsigned char *",
    start_places="long long *",
    end_places="int *",
    data_bytes=cython.Py_ssize_t,
    spare_bytes=cython.Py_ssize_t,
    target_bytes=cython.Py_ssize_t,
    place=cython.Py_ssize_t,
    start=cython.longlong,
    to=cython.longlong,
    size=cython.longlong,
)
cpdef object copy_field(
    data,
    bytearray extra,
    starts,
    ends,
    Py_ssize_t first,
    Py_ssize_t count,
    target,
)


@cython.locals(places="long long[::1]", index=cython.Py_ssize_t)
cpdef object fill_range(
    target, Py_ssize_t at, long long first, Py_ssize_t count
)


@cython.locals(
    places="long long[::1]",
    time_places="long long[::1]",
    count=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    time_ns=cython.longlong,
    time=cython.longlong,
)
cpdef object fill_microseconds(target, Py_ssize_t at, times_ns)


@cython.locals(
    first=cython.int, low=cython.int, high=cython.int, more=cython.Py_ssize_t
)
cpdef bint is_utf8(octets_t octets, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(
    key_at=cython.Py_ssize_t,
    properties_at=cython.Py_ssize_t,
    body_at=cython.Py_ssize_t,
    size=cython.longlong,
)
cdef bint _find_route(
    octets_t octets, Py_ssize_t at, Py_ssize_t stop, long long *places
) noexcept


@cython.locals(
    at=cython.Py_ssize_t,
    end=cython.Py_ssize_t,
    field=cython.int,
    flags=cython.int,
    word=cython.int,
    unknown=cython.int,
    mask=cython.int,
)
cdef bint _find_properties(octets_t octets, long long *places) noexcept


@cython.locals(
    start=cython.longlong, size=cython.longlong, seconds=cython.ulonglong
)
cdef Py_ssize_t _find_property(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t end,
    int field,
    long long *places,
) noexcept
