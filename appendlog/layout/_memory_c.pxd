# Pointers into buffers, for compiled kernels; interpreted ones use _places_py.py.

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
