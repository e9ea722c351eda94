# C types for the names of _json_py.py, compiled as _json_c.

cimport cython

from appendlog.layout cimport _columns_c as columns
from appendlog.layout cimport _memory_c as memory
from appendlog.layout._memory_c cimport octets_t

cdef unsigned long long _ALL_BITS
cdef int _DEPTH_MAX
cdef long long _ENTRIES_MAX


@cython.locals(
    begin=cython.Py_ssize_t,
    entries=cython.longlong,
    one=cython.ulonglong,
    seen=cython.ulonglong,
    mark=cython.ulonglong,
    size=cython.longlong,
    start=cython.Py_ssize_t,
    stop=cython.Py_ssize_t,
    kind=cython.int,
    has_mark=cython.bint,
)
cdef Py_ssize_t put_object(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t end,
    int depth,
    bint is_marked,
    unsigned char *values,
    Py_ssize_t to,
) noexcept


@cython.locals(
    begin=cython.Py_ssize_t, stop=cython.Py_ssize_t, kind=cython.int
)
cdef Py_ssize_t _put_array(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t end,
    int depth,
    bint is_marked,
    unsigned char *values,
    Py_ssize_t to,
) noexcept


@cython.locals(width=cython.int)
cdef Py_ssize_t put_value(
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t stop,
    int kind,
    int depth,
    bint is_marked,
    unsigned char *values,
    Py_ssize_t to,
) noexcept


@cython.locals(size=cython.longlong)
cdef Py_ssize_t value_end(
    octets_t octets, Py_ssize_t at, Py_ssize_t end, int kind
) noexcept


@cython.locals(size=cython.Py_ssize_t, start=cython.Py_ssize_t)
cdef bint _is_repeated(
    octets_t octets, Py_ssize_t at, Py_ssize_t key, Py_ssize_t end
) noexcept


@cython.locals(
    place=cython.Py_ssize_t,
    octet=cython.int,
    brief=cython.int,
    low=cython.int,
)
cdef Py_ssize_t _put_string(
    unsigned char *values,
    Py_ssize_t to,
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t size,
    bint is_marked,
) noexcept


@cython.locals(width=cython.int)
cdef int _integer_width(int kind) noexcept


cdef bint _is_signed(int kind) noexcept


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
