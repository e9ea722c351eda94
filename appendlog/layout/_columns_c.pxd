# C types for the names of _columns_py.py, compiled as _columns_c.

cimport cython

from libc.string cimport memcmp, memcpy

ctypedef const unsigned char *octets_t


cdef inline octets_t octets_of(const unsigned char[::1] view) noexcept:
    # Of a buffer that the caller keeps alive, as below.
    return &view[0]


cdef inline unsigned char *stores_of(unsigned char[::1] view) noexcept:
    return &view[0]


cdef inline void copy_octets(
    unsigned char *stores,
    Py_ssize_t to,
    octets_t octets,
    Py_ssize_t start,
    Py_ssize_t size,
) noexcept:
    memcpy(stores + to, octets + start, size)


cdef inline bint is_same(
    const unsigned char *stores,
    Py_ssize_t at,
    octets_t octets,
    Py_ssize_t start,
    Py_ssize_t size,
) noexcept:
    return memcmp(stores + at, octets + start, size) == 0


cdef inline Py_ssize_t ascii_end(
    octets_t octets, Py_ssize_t at, Py_ssize_t end
) noexcept:
    cdef unsigned long long word
    while end - at >= 8:
        memcpy(&word, octets + at, 8)
        if word & 0x8080808080808080ULL:
            return at
        at += 8
    while at < end and octets[at] < 0x80:
        at += 1
    return at


cdef bint COMPILED
cdef int EXCHANGE
cdef int KEY
cdef int ENVELOPE
cdef int VALUE
cdef int PROPERTIES
cdef int FIELDS
cdef int TABLES_DONE
cdef int TABLES_FULL
cdef int TABLES_RARE
cdef int TEXT_VALUES
cdef int RAW_VALUES
cdef int _HEADERS
cdef int _DELIVERY_MODE
cdef int _PRIORITY
cdef int _TIMESTAMP
cdef long long _INT32_MAX
cdef unsigned long long _ALL_BITS
cdef unsigned long long _TIMESTAMP_SECONDS_MAX
cdef long long _TABLE_BYTES_MAX
cdef long long _ENTRIES_MAX
cdef long long _NANOSECONDS_PER_MICROSECOND


@cython.locals(
    octets=octets_t,
    found=object,
    places="long long[::1]",
    position_places="unsigned int[::1]",
    length_places="unsigned int[::1]",
    field_places="int[::1]",
    text_places="int[::1]",
    start_places="long long[::1]",
    end_places="int[::1]",
    bit_places="unsigned char[::1]",
    number_places="short[::1]",
    time_places="long long[::1]",
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
    Py_ssize_t row,
    Py_ssize_t room,
    fields,
    is_text,
    bint with_properties,
    starts,
    ends,
    bits,
    octet_numbers,
    microseconds,
    bytearray extra,
)


@cython.locals(
    octets=octets_t,
    others=octets_t,
    stores="unsigned char *",
    start_places="long long[::1]",
    end_places="int[::1]",
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


@cython.locals(
    octets=octets_t,
    key_stores="unsigned char *",
    value_stores="unsigned char *",
    value_bit_stores="unsigned char *",
    key_end_places="int[::1]",
    value_end_places="int[::1]",
    sum_places="long long[::1]",
    start_places="long long[::1]",
    end_places="int[::1]",
    bit_places="unsigned char[::1]",
    map_places="int[::1]",
    entries_room=cython.longlong,
    keys_room=cython.longlong,
    values_room=cython.longlong,
    data_bytes=cython.Py_ssize_t,
    start=cython.longlong,
    size=cython.longlong,
)
cpdef tuple decode_tables(
    data,
    starts,
    ends,
    bits,
    Py_ssize_t first,
    Py_ssize_t first_bit,
    Py_ssize_t row,
    Py_ssize_t until_row,
    int form,
    map_ends,
    keys,
    key_ends,
    values,
    value_ends,
    value_bits,
    sums,
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
cdef bint is_utf8(octets_t octets, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(
    key_at=cython.Py_ssize_t,
    properties_at=cython.Py_ssize_t,
    body_at=cython.Py_ssize_t,
    size=cython.longlong,
)
cdef bint _find_route(
    octets_t octets, Py_ssize_t at, Py_ssize_t stop, long long[::1] places
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
cdef bint _find_properties(octets_t octets, long long[::1] places) noexcept


@cython.locals(
    start=cython.longlong, size=cython.longlong, seconds=cython.ulonglong
)
cdef Py_ssize_t _find_property(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t end,
    int field,
    long long[::1] places,
) noexcept


@cython.locals(
    first=cython.longlong,
    entries=cython.longlong,
    key_at=cython.longlong,
    value_at=cython.longlong,
    one=cython.ulonglong,
    seen=cython.ulonglong,
    mark=cython.ulonglong,
    size=cython.longlong,
    start=cython.Py_ssize_t,
    kind=cython.int,
    width=cython.int,
    is_signed=cython.bint,
)
cdef bint _add_table(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t end,
    int form,
    unsigned char *keys,
    int[::1] key_ends,
    unsigned char *values,
    int[::1] value_ends,
    unsigned char *value_bits,
    long long[::1] sums,
) noexcept


@cython.locals(entry=cython.longlong, at=cython.Py_ssize_t)
cdef bint _is_known(
    const unsigned char *keys,
    int[::1] key_ends,
    long long first,
    long long entries,
    octets_t octets,
    Py_ssize_t start,
    Py_ssize_t size,
) noexcept


@cython.locals(size=cython.int)
cdef Py_ssize_t _put_truth(
    unsigned char *values, Py_ssize_t at, bint is_true
) noexcept


@cython.locals(
    raw=cython.ulonglong,
    rest=cython.ulonglong,
    end=cython.Py_ssize_t,
    place=cython.Py_ssize_t,
)
cdef Py_ssize_t _put_digits(
    unsigned char *values,
    Py_ssize_t to,
    octets_t octets,
    Py_ssize_t at,
    int width,
    bint is_signed,
) noexcept


@cython.locals(value=cython.ulonglong, place=cython.Py_ssize_t)
cdef unsigned long long _unsigned(
    octets_t octets, Py_ssize_t at, int width
) noexcept


cdef void _copy(
    unsigned char *stores,
    Py_ssize_t to,
    octets_t octets,
    Py_ssize_t start,
    Py_ssize_t size,
) noexcept


@cython.locals(same=cython.bint)
cdef bint _is_same(
    const unsigned char *stores,
    Py_ssize_t at,
    octets_t octets,
    Py_ssize_t start,
    Py_ssize_t size,
) noexcept
