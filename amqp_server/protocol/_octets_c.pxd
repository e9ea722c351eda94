# Octets compared and joined without objects in between, for compiled kernels only.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

ctypedef const unsigned char *octets


cdef inline bint is_same(
    octets data, Py_ssize_t at, bytes expected, Py_ssize_t size
) noexcept:
    return memcmp(data + at, PyBytes_AS_STRING(expected), size) == 0


cdef inline bytes joined(bytes prefix, octets data, Py_ssize_t start, Py_ssize_t end):
    cdef Py_ssize_t before = PyBytes_GET_SIZE(prefix)
    # No other code may see it before it is filled.
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, before + end - start)
    cdef char *target = PyBytes_AS_STRING(whole)
    memcpy(target, PyBytes_AS_STRING(prefix), before)
    memcpy(target + before, data + start, end - start)
    return whole


cdef inline bint is_repeated(
    octets data, Py_ssize_t at, Py_ssize_t other_at, Py_ssize_t size
) noexcept:
    return memcmp(data + at, data + other_at, size) == 0


cdef inline bytes message_of(
    unsigned int flags,
    octets data,
    Py_ssize_t route_at,
    Py_ssize_t route_end,
    Py_ssize_t properties_at,
    Py_ssize_t properties_end,
    Py_ssize_t body_at,
    Py_ssize_t body_end,
):
    cdef Py_ssize_t route = route_end - route_at
    cdef Py_ssize_t properties = properties_end - properties_at
    # No other code may see it before it is filled.
    cdef bytes whole = PyBytes_FromStringAndSize(
        NULL, 5 + route + properties + body_end - body_at
    )
    cdef char *target = PyBytes_AS_STRING(whole)
    target[0] = flags & 0xFF
    memcpy(target + 1, data + route_at, route)
    target += 1 + route
    target[0] = properties & 0xFF
    target[1] = properties >> 8 & 0xFF
    target[2] = properties >> 16 & 0xFF
    target[3] = properties >> 24 & 0xFF
    memcpy(target + 4, data + properties_at, properties)
    memcpy(target + 4 + properties, data + body_at, body_end - body_at)
    return whole
