# Pointers into buffers, for compiled kernels; interpreted ones use _memory_py.py.

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_Clear
from cpython.mem cimport PyMem_Free
from libc.math cimport isfinite
from libc.string cimport memcmp, memcpy, strlen

cdef extern from "Python.h":
    int Py_DTSF_ADD_DOT_0
    char *PyOS_double_to_string(
        double value, char code, int precision, int flags, int *kind
    )


ctypedef const unsigned char *octets_t


cdef inline octets_t octets_of(const unsigned char[::1] view) noexcept:
    # A pointer into a buffer that the caller keeps alive, as below.
    return &view[0]


cdef inline unsigned char *stores_of(unsigned char[::1] view) noexcept:
    return &view[0]


cdef inline int *ints_of(int[::1] view) noexcept:
    return &view[0]


cdef inline unsigned int *uints_of(unsigned int[::1] view) noexcept:
    return &view[0]


cdef inline short *shorts_of(short[::1] view) noexcept:
    return &view[0]


cdef inline long long *longs_of(long long[::1] view) noexcept:
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


cdef inline bytes unwritten(Py_ssize_t size):
    # No other code may see the object before it is filled.
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline unsigned char *target_of(bytes unwritten) noexcept:
    return unwritten


cdef inline bytes written(bytes filled):
    return filled


cdef inline bytes copy_of(octets_t octets, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char *>octets + at, size)


cdef inline long long u32(octets_t octets, Py_ssize_t at) noexcept:
    cdef long long value = octets[at + 3]
    value = value << 8 | octets[at + 2]
    value = value << 8 | octets[at + 1]
    return value << 8 | octets[at]


cdef inline long long i64(octets_t octets, Py_ssize_t at) noexcept:
    return u32(octets, at + 4) << 32 | u32(octets, at)


cdef inline (long long, long long, long long) record_front(
    octets_t octets, Py_ssize_t at
) noexcept:
    return u32(octets, at), u32(octets, at + 4), u32(octets, at + 8)


cdef inline void put_record(
    unsigned char *stores,
    Py_ssize_t at,
    long long size,
    long long offset_delta,
    long long timestamp_delta,
    bytes message,
) noexcept:
    _put_u32(stores, at, size)
    _put_u32(stores, at + 4, offset_delta)
    _put_u32(stores, at + 8, timestamp_delta)
    copy_octets(stores, at + 12, message, 0, len(message))


cdef inline void _put_u32(
    unsigned char *stores, Py_ssize_t at, long long value
) noexcept:
    stores[at] = value & 255
    stores[at + 1] = value >> 8 & 255
    stores[at + 2] = value >> 16 & 255
    stores[at + 3] = value >> 24 & 255


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


cdef inline unsigned long long big_endian(
    octets_t octets, Py_ssize_t at, Py_ssize_t width
) noexcept:
    # Loads a big-endian number of at most 8 octets.
    cdef unsigned long long value = octets[at]
    cdef Py_ssize_t place
    for place in range(at + 1, at + width):
        value = value << 8 | octets[place]
    return value


cdef inline bint same_octets(
    octets_t octets, Py_ssize_t at, Py_ssize_t other, Py_ssize_t size
) noexcept:
    return memcmp(octets + at, octets + other, size) == 0


cdef inline Py_ssize_t put_double(
    unsigned char *stores,
    Py_ssize_t to,
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t width,
) noexcept:
    # Writes a float as repr() does, at most 24 octets; returns where it ends, or -1 if not finite.
    cdef unsigned long long raw = big_endian(octets, at, width)
    cdef unsigned int raw_single
    cdef float single
    cdef double value
    cdef char *text
    cdef Py_ssize_t size
    if width == 4:
        raw_single = <unsigned int>raw
        memcpy(&single, &raw_single, 4)
        value = single
    else:
        memcpy(&value, &raw, 8)
    if not isfinite(value):
        return -1
    text = PyOS_double_to_string(value, b"r", 0, Py_DTSF_ADD_DOT_0, NULL)
    if text is NULL:
        PyErr_Clear()
        return -1
    size = strlen(text)
    memcpy(stores + to, text, size)
    PyMem_Free(text)
    return to + size
