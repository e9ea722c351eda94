# C types for the names of _writing_py.py, compiled as _writing_c.

cimport cython

ctypedef const unsigned char *octets


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
    parts=list,
    prefix=bytes,
    prefix_bytes=cython.Py_ssize_t,
    message_bytes=cython.Py_ssize_t,
    start=bytes,
    middle=bytes,
    body_bytes_max=cython.Py_ssize_t,
    tag_bytes=cython.Py_ssize_t,
    tag_at=cython.Py_ssize_t,
    tag_octets=octets,
    message=bytes,
    size=cython.Py_ssize_t,
    data=octets,
    route_end=cython.Py_ssize_t,
    properties_bytes=cython.longlong,
    body_bytes=cython.Py_ssize_t,
    method_bytes=cython.Py_ssize_t,
    route=bytes,
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

@cython.locals(end=cython.Py_ssize_t, stop=cython.Py_ssize_t)
cdef _split_body(
    bytes message, Py_ssize_t at, int channel, Py_ssize_t body_bytes_max, list parts
)
