# C types for the names of _writing_py.py, compiled as _writing_c.

cimport cython

from libc.string cimport memcmp, memcpy

ctypedef const unsigned char *octets_t

cdef bint COMPILED
cdef int _FRAMES_BYTES


cdef inline octets_t octets_of(const unsigned char[::1] view) noexcept:
    # Of a buffer that the caller keeps alive.
    return &view[0]


cdef inline bint compare_octets(
    octets_t octets, Py_ssize_t at, Py_ssize_t other, Py_ssize_t size
) noexcept:
    return memcmp(octets + at, octets + other, size) == 0


cdef inline void copy_octets(
    unsigned char *target, Py_ssize_t to, octets_t octets, Py_ssize_t at, Py_ssize_t size
) noexcept:
    memcpy(target + to, octets + at, size)


@cython.locals(count=cython.Py_ssize_t, tags=bytes)
cpdef bytes encode_deliveries(
    list messages,
    int channel,
    bytes consumer_tag,
    unsigned long long first_tag,
    bint redelivered,
    Py_ssize_t frame_max,
)

cpdef bytes encode_content(
    bytes message, int channel, bytes before_route, bytes after_route, Py_ssize_t frame_max
)


@cython.locals(
    at_places="unsigned int[::1]",
    size_places="unsigned int[::1]",
    octets=octets_t,
    target="unsigned char *",
    encoded=bytearray,
    head=bytes,
    flag=bytes,
    before=bytes,
    behind=bytes,
    body_bytes_max=cython.Py_ssize_t,
    view_bytes=cython.Py_ssize_t,
    room=cython.Py_ssize_t,
    index=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    size=cython.Py_ssize_t,
    to=cython.Py_ssize_t,
    tag=cython.ulonglong,
    model=cython.Py_ssize_t,
    prefix_bytes=cython.Py_ssize_t,
    message_bytes=cython.Py_ssize_t,
)
cpdef bytearray encode_run(
    buffer,
    positions,
    lengths,
    Py_ssize_t start,
    Py_ssize_t stop,
    int channel,
    bytes consumer_tag,
    unsigned long long first_tag,
    bint redelivered,
    Py_ssize_t frame_max,
)


@cython.locals(
    parts=list,
    prefix=bytes,
    prefix_bytes=cython.Py_ssize_t,
    message_bytes=cython.Py_ssize_t,
    start=bytes,
    middle=bytes,
    body_bytes_max=cython.Py_ssize_t,
    tag_bytes=cython.Py_ssize_t,
    tag_at=cython.Py_ssize_t,
    tag_octets=octets_t,
    message=bytes,
    size=cython.Py_ssize_t,
    data=octets_t,
)
cdef bytes _encode(
    list messages,
    int channel,
    bytes method_head,
    bytes tags,
    bytes before_route,
    bytes after_route,
    Py_ssize_t frame_max,
)


@cython.locals(
    data=octets_t,
    route_end=cython.Py_ssize_t,
    properties_bytes=cython.Py_ssize_t,
    method_bytes=cython.Py_ssize_t,
)
cdef tuple _frames(
    bytes prefix,
    Py_ssize_t body_bytes,
    int channel,
    bytes method_head,
    Py_ssize_t tag_bytes,
    bytes before_route,
    bytes after_route,
    Py_ssize_t body_bytes_max,
)


@cython.locals(route_end=cython.Py_ssize_t, properties_bytes=cython.longlong)
cdef Py_ssize_t _prefix_bytes(octets_t octets) noexcept


@cython.locals(place=cython.Py_ssize_t, properties_bytes=cython.longlong)
cdef Py_ssize_t _body_position(octets_t octets, Py_ssize_t at, Py_ssize_t size) except -1


cdef bint _is_same(
    octets_t octets, Py_ssize_t at, Py_ssize_t other, Py_ssize_t size
) noexcept


cdef Py_ssize_t _put(
    unsigned char *target, Py_ssize_t to, octets_t octets, Py_ssize_t at, Py_ssize_t size
) noexcept


@cython.locals(place=cython.int)
cdef Py_ssize_t _put_tag(unsigned char *target, Py_ssize_t to, unsigned long long tag) noexcept


@cython.locals(part=cython.Py_ssize_t)
cdef Py_ssize_t _put_split(
    unsigned char *target,
    Py_ssize_t to,
    octets_t octets,
    Py_ssize_t at,
    Py_ssize_t size,
    int channel,
    Py_ssize_t body_bytes_max,
) except -1


@cython.locals(end=cython.Py_ssize_t, stop=cython.Py_ssize_t)
cdef _split_body(
    bytes message, Py_ssize_t at, int channel, Py_ssize_t body_bytes_max, list parts
)
