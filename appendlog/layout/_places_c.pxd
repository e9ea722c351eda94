# Pointers into buffers, for kernels: in C only, _places_py.py is what they have interpreted.

from libc.string cimport memcmp, memcpy

ctypedef const unsigned char *octets_t


cdef inline octets_t octets_of(const unsigned char[::1] view) noexcept:
    # Of a buffer that the caller keeps alive, as below.
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
    octets_t octets, Py_ssize_t at, int width
) noexcept:
    # A big-endian number of at most 8 octets.
    cdef unsigned long long value = octets[at]
    cdef Py_ssize_t place
    for place in range(at + 1, at + width):
        value = value << 8 | octets[place]
    return value
