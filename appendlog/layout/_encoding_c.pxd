# C types for the names of _encoding_py.py, compiled as _encoding_c.

cimport cython

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.string cimport memcpy

ctypedef const unsigned char *octets_t


cdef inline bytes new_bytes(Py_ssize_t size):
    # No other code may see the object before it is filled.
    return PyBytes_FromStringAndSize(NULL, size)


cdef inline void copy_octets(
    unsigned char *target, Py_ssize_t to, octets_t octets, Py_ssize_t size
) noexcept:
    memcpy(target + to, octets, size)


cdef bint COMPILED
cdef int _CHUNK_HEADER_BYTES
cdef int _ANNOTATED
cdef int _PERSISTENT
cdef long long _U32_MAX
cdef long long _OFFSET_MAX
cdef long long _MILLISECOND_NS


@cython.locals(
    count=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    size=cython.longlong,
    parts=list,
    chunk=bytes,
    chunk_bytes=cython.Py_ssize_t,
    target="unsigned char *",
    to=cython.Py_ssize_t,
    front=bytes,
    message=bytes,
    prefix=bytes,
    records=bytes,
    tail=bytes,
    prefix_bytes=cython.Py_ssize_t,
    flags=cython.uint,
    priority=cython.int,
    expiration=cython.longlong,
    transient=cython.longlong,
    transient_count=cython.longlong,
    body_bytes=cython.longlong,
    priority_bitmap=cython.ulonglong,
    expiration_ns=cython.longlong,
    expiry_ns=cython.longlong,
    min_expiry_ns=cython.longlong,
    max_expiry_ns=cython.longlong,
    offset_delta=cython.longlong,
    previous_delta=cython.longlong,
    timestamp_delta=cython.longlong,
    last_timestamp_delta=cython.longlong,
)
cpdef bytes encode_chunk(
    list messages,
    long long base_offset,
    list offset_deltas,
    long long first_timestamp_ns,
    list timestamp_deltas_ns,
    unsigned int salt,
    bytes transaction_id=*,
)


cpdef bytes encode_payloads(
    list payloads,
    bytes prefix,
    long long base_offset,
    long long timestamp_ns,
    unsigned int salt,
)


@cython.locals(
    index=cython.Py_ssize_t,
    size=cython.longlong,
    chunk=bytes,
    chunk_bytes=cython.Py_ssize_t,
    target="unsigned char *",
    to=cython.Py_ssize_t,
    front=bytes,
    payload=bytes,
    tail=bytes,
    prefix_bytes=cython.Py_ssize_t,
    body_bytes=cython.longlong,
)
cdef bytes _encode_payloads(
    list payloads,
    Py_ssize_t count,
    bytes prefix,
    long long base_offset,
    long long timestamp_ns,
    unsigned int salt,
)


cdef int _check_sizes(
    Py_ssize_t count,
    long long base_offset,
    list offset_deltas,
    list timestamp_deltas_ns,
    bytes transaction_id,
) except -1


cdef void _store_record(
    unsigned char *stores,
    Py_ssize_t at,
    long long size,
    long long offset_delta,
    long long timestamp_delta,
) noexcept


@cython.locals(octets=octets_t, at=cython.Py_ssize_t)
cdef Py_ssize_t _body_position(bytes message, Py_ssize_t size) except -1


@cython.locals(at=cython.Py_ssize_t)
cdef Py_ssize_t _properties_position(bytes message) except -1


@cython.locals(value=cython.longlong)
cdef long long _u32(octets_t octets, Py_ssize_t at) noexcept


@cython.locals(one=cython.ulonglong)
cdef unsigned long long _bit(int priority) noexcept
