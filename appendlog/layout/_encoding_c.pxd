# C types for the names of _encoding_py.py, compiled as _encoding_c.

cimport cython

from appendlog.layout cimport _memory_c as memory
from appendlog.layout._memory_c cimport octets_t

cdef int _CHUNK_HEADER_BYTES
cdef int _ANNOTATED
cdef int _PERSISTENT
cdef int _CONTENT_TYPE
cdef int _CONTENT_ENCODING
cdef int _HEADERS
cdef int _DELIVERY_MODE
cdef int _PRIORITY
cdef int _CORRELATION_ID
cdef int _REPLY_TO
cdef int _EXPIRATION
cdef tuple _NEITHER
cdef long long _EXPIRATION_MILLISECONDS_MAX
cdef Py_ssize_t _EXPIRATION_DIGITS_MAX
cdef long long _U32_MAX
cdef long long _OFFSET_MAX
cdef long long _MILLISECOND_NS


@cython.locals(
    count=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    size=cython.longlong,
    chunk=bytes,
    chunk_bytes=cython.Py_ssize_t,
    target="unsigned char *",
    to=cython.Py_ssize_t,
    front=bytes,
    message=bytes,
    prefix=bytes,
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


@cython.locals(
    count=cython.Py_ssize_t,
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
cpdef bytes encode_payloads(
    list payloads,
    bytes prefix,
    long long base_offset,
    long long timestamp_ns,
    unsigned int salt,
)


@cython.locals(
    octets=octets_t,
    present=cython.int,
    more=cython.int,
    size=cython.longlong,
    priority=cython.int,
    stop=cython.Py_ssize_t,
)
cpdef tuple priority_and_expiration(bytes properties, Py_ssize_t at, Py_ssize_t end)


cdef Py_ssize_t _behind_text(octets_t octets, Py_ssize_t at, Py_ssize_t end) noexcept


@cython.locals(digits=bytes)
cdef long long _milliseconds(bytes text)


cdef int _check_sizes(
    Py_ssize_t count,
    long long base_offset,
    list offset_deltas,
    list timestamp_deltas_ns,
    bytes transaction_id,
) except -1


@cython.locals(octets=octets_t, at=cython.Py_ssize_t)
cdef Py_ssize_t _body_position(bytes message, Py_ssize_t size) except -1


@cython.locals(at=cython.Py_ssize_t)
cdef Py_ssize_t _properties_position(bytes message) except -1


@cython.locals(one=cython.ulonglong)
cdef unsigned long long _bit(int priority) noexcept
