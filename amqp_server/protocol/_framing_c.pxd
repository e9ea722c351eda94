# C types for the names of _framing_py.py, compiled as _framing_c.

cimport cython

ctypedef const unsigned char *octets

cdef int _MORE
cdef int _SINGLY
cdef int _MALFORMED


@cython.locals(bit=cython.int, size=cython.longlong)
cpdef Py_ssize_t property_list_end(
    octets data, Py_ssize_t at, Py_ssize_t end, unsigned int flags
)


@cython.locals(size=cython.longlong)
cpdef Py_ssize_t delivery_mode_position(
    octets data, Py_ssize_t at, unsigned int flags
)


cdef class FrameScanner:
    cdef public Py_ssize_t frame_max
    cdef public Py_ssize_t body_bytes_max
    cdef bytes group_prefix
    cdef Py_ssize_t group_prefix_bytes
    cdef Py_ssize_t group_body_bytes
    cdef bytes message_prefix
    cdef bytes method_payload
    cdef bytes method_frame
    cdef int channel
    cdef unsigned int property_flags
    cdef unsigned int message_flags

    @cython.locals(
        at=cython.Py_ssize_t,
        run=list,
        acks=list,
        ack_channel=cython.int,
        last_tag=cython.ulonglong,
        tag=cython.ulonglong,
        multiple=cython.int,
        prefix_bytes=cython.Py_ssize_t,
        body_bytes=cython.Py_ssize_t,
        body_at=cython.Py_ssize_t,
        stop=cython.Py_ssize_t,
        kind=cython.int,
        channel=cython.int,
        size=cython.longlong,
        outcome=cython.int,
    )
    cpdef Py_ssize_t scan(
        self, octets data, Py_ssize_t start, Py_ssize_t end, list events
    )

    cdef _begin_run(self, list run, list events)

    @cython.locals(
        size=cython.longlong,
        header_end=cython.Py_ssize_t,
        prefix_end=cython.Py_ssize_t,
        high=cython.longlong,
        body_bytes=cython.longlong,
    )
    cdef int _learn_publish(
        self, octets data, Py_ssize_t at, Py_ssize_t method_end, Py_ssize_t end
    )

    @cython.locals(
        flags_at=cython.Py_ssize_t,
        flags=cython.uint,
        list_end=cython.Py_ssize_t,
        route_at=cython.Py_ssize_t,
        last=cython.Py_ssize_t,
        route_end=cython.Py_ssize_t,
        message_flags=cython.uint,
        fresh=cython.int,
        channel=cython.int,
        properties=bytes,
    )
    cdef int _remember(
        self,
        octets data,
        Py_ssize_t at,
        Py_ssize_t method_end,
        Py_ssize_t header_end,
        Py_ssize_t prefix_end,
        Py_ssize_t body_bytes,
    )


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
