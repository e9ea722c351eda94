# C types for the names of _tables_py.py, compiled as _tables_c.

cimport cython

from appendlog.layout cimport _columns_c as columns
from appendlog.layout cimport _json_c as json_text
from appendlog.layout cimport _memory_c as memory
from appendlog.layout._memory_c cimport octets_t

cdef int TABLES_DONE
cdef int TABLES_FULL
cdef int TABLES_RARE
cdef int TEXT_VALUES
cdef int RAW_VALUES
cdef int JSON_TEXT
cdef long long _TABLE_BYTES_MAX
cdef long long _ENTRIES_MAX


@cython.locals(
    octets=octets_t,
    key_stores="unsigned char *",
    value_stores="unsigned char *",
    value_bit_stores="unsigned char *",
    key_end_places="int *",
    value_end_places="int *",
    sum_places="long long *",
    start_places="long long *",
    end_places="int *",
    bit_places="unsigned char *",
    map_places="int *",
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
    stop=cython.Py_ssize_t,
)
cdef bint _add_table(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t end,
    int form,
    unsigned char *keys,
    int *key_ends,
    unsigned char *values,
    int *value_ends,
    unsigned char *value_bits,
    long long *sums,
) noexcept


@cython.locals(entry=cython.longlong, at=cython.Py_ssize_t)
cdef bint _is_known(
    const unsigned char *keys,
    int *key_ends,
    long long first,
    long long entries,
    octets_t octets,
    Py_ssize_t start,
    Py_ssize_t size,
) noexcept
