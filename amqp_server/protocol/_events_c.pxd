# C types for the names of _events_py.py, compiled as _events_c.

cimport cython


cdef Py_ssize_t _METHOD_ID_BYTES


cdef class ScannedEvent:
    pass


@cython.final
cdef class PublishRun(ScannedEvent):
    cdef readonly int channel
    cdef readonly bytes method_payload
    cdef readonly list messages
    cdef readonly unsigned int checked_flags
    cdef readonly unsigned int shared_flags


@cython.final
cdef class PublishRow(ScannedEvent):
    cdef readonly int channel
    cdef readonly list method_payloads
    cdef readonly list messages
    cdef readonly unsigned int checked_flags
    cdef readonly unsigned int shared_flags


@cython.final
cdef class AckRun(ScannedEvent):
    cdef readonly int channel
    cdef readonly list ranges


@cython.final
cdef class MethodFrame(ScannedEvent):
    cdef readonly int channel
    cdef readonly bytes payload


@cython.final
cdef class ContentHeader(ScannedEvent):
    cdef readonly int channel
    cdef readonly bytes payload


@cython.final
cdef class ContentBody(ScannedEvent):
    cdef readonly int channel
    cdef readonly bytes payload


@cython.final
cdef class HeartbeatFrame(ScannedEvent):
    cdef readonly int channel


@cython.final
cdef class BrokenFrame(ScannedEvent):
    cdef readonly int channel
    cdef readonly str text


@cython.locals(event=PublishRun)
cdef PublishRun publish_run(
    int channel,
    bytes method_payload,
    list messages,
    unsigned int checked_flags,
    unsigned int shared_flags,
)


@cython.locals(event=AckRun)
cdef AckRun ack_run(int channel, list ranges)
