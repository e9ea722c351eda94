# C types for the names of _scanning_py.py, compiled as _scanning_c.

cimport cython

from amqp_server.protocol cimport _events_c as _events
from amqp_server.protocol cimport _octets_c as _octets
from amqp_server.protocol._events_c cimport PublishRow, PublishRun, ScannedEvent
from amqp_server.protocol._headers_c cimport copies_named
from amqp_server.protocol._octets_c cimport octets

cdef bint COMPILED
cdef bytes EMPTY
cdef unsigned int _HEADERS
cdef unsigned int _HAS_HEADERS
cdef unsigned int _REPLY_TO
cdef bytes _DIRECT_REPLY_TO
cdef Py_ssize_t _DIRECT_REPLY_TO_BYTES
cdef unsigned int CHECKED_PROPERTIES
cdef int REPEATS_MAX
cdef int _MORE
cdef int _SINGLY


@cython.locals(value=cython.ulonglong)
cdef unsigned long long long_at(octets data, Py_ssize_t at) noexcept


@cython.locals(bit=cython.int, size=cython.longlong)
cpdef Py_ssize_t property_list_end(
    octets data, Py_ssize_t at, Py_ssize_t end, unsigned int flags
)


cpdef Py_ssize_t headers_position(octets data, Py_ssize_t at, unsigned int flags) noexcept


@cython.locals(size=cython.longlong)
cpdef int copies_in_headers(octets data, Py_ssize_t at, unsigned int flags) noexcept


@cython.locals(size=cython.longlong)
cpdef Py_ssize_t delivery_mode_position(
    octets data, Py_ssize_t at, unsigned int flags
)


cpdef bint asks_for_replies(octets data, Py_ssize_t at, unsigned int flags) noexcept


@cython.locals(checked=cython.uint)
cpdef unsigned int checked_flags_of(
    octets data, Py_ssize_t at, unsigned int flags, int copies
)


cdef ScannedEvent single_frame(int kind, int channel, bytes payload)


cdef class FrameScanner:
    cdef public Py_ssize_t frame_max
    cdef public Py_ssize_t body_bytes_max
    cdef bytes group_prefix
    cdef Py_ssize_t group_prefix_bytes
    cdef Py_ssize_t group_body_bytes
    cdef Py_ssize_t group_at
    cdef Py_ssize_t route_at
    cdef Py_ssize_t route_end
    cdef Py_ssize_t properties_at
    cdef Py_ssize_t properties_end
    cdef bytes message_prefix
    cdef bytes method_payload
    cdef bytes method_frame
    cdef int channel
    cdef int repeats
    cdef unsigned int checked_flags
    cdef unsigned int message_flags
    cdef unsigned int shared_flags

    @cython.locals(
        at=cython.Py_ssize_t,
        run=list,
        message=bytes,
        group_prefix=bytes,
        message_prefix=bytes,
        is_kept=cython.bint,
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

    cdef Py_ssize_t _fail(self, int channel, str text, Py_ssize_t end, list events)

    cdef void _keep_group(self, octets data)

    cdef bytes _message(self, octets data, Py_ssize_t body_at, Py_ssize_t body_end)

    @cython.locals(
        row=PublishRow,
        before=PublishRun,
        payloads=list,
        messages=list,
        run=list,
    )
    cdef list _begin_run(self, bytes message, list events)

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
        copies=cython.int,
        message_flags=cython.uint,
        checked_flags=cython.uint,
        shared_flags=cython.uint,
        fresh=cython.int,
        channel=cython.int,
        size=cython.Py_ssize_t,
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
