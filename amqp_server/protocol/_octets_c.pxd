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
