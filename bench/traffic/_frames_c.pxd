# C types for the names of _frames_py.py, compiled as _frames_c.

cimport cython

cdef bytes _HEX
cdef bytes _VALUES
cdef unsigned long long _ALL_BITS
cdef unsigned long long _FACTOR_1
cdef unsigned long long _FACTOR_2
cdef int _END
cdef int _METHOD_START
cdef int _SMALLEST_HEADER


@cython.locals(value=cython.ulonglong)
cpdef unsigned long long mixed(unsigned long long serial, unsigned long long seed)


@cython.locals(end=cython.Py_ssize_t)
cdef void write_hex(bytearray octets, Py_ssize_t at, unsigned long long value, int digits) noexcept


@cython.locals(value=cython.ulonglong, i=cython.int)
cdef unsigned long long read_hex(bytearray octets, Py_ssize_t at) noexcept


@cython.locals(end=cython.Py_ssize_t)
cdef bint is_hex(bytearray octets, Py_ssize_t at, unsigned long long value) noexcept


@cython.locals(value=cython.ulonglong)
cdef unsigned long long long_at(bytearray octets, Py_ssize_t at) noexcept


@cython.locals(
    index=cython.Py_ssize_t,
    spots=tuple,
    time_at=cython.Py_ssize_t,
    body_at=cython.Py_ssize_t,
    digits_at=cython.Py_ssize_t,
    identity=cython.ulonglong,
    value=cython.ulonglong,
    digest=cython.ulonglong,
    i=cython.Py_ssize_t,
    at=cython.Py_ssize_t,
    shift=cython.int,
    digits=cython.int,
)
cpdef renew(
    bytearray octets,
    object view,
    list messages,
    Py_ssize_t first,
    Py_ssize_t count,
    unsigned long long serial,
    unsigned long long seed,
    unsigned long long now_ns,
    unsigned long long second,
)


cdef class ConfirmScanner:
    cdef public long long published
    cdef public long long confirmed
    cdef public long long nacked
    cdef public list latencies_ns
    cdef public bytes fault
    cdef long long _window
    cdef long long _mask
    cdef list _sent_ns
    cdef bytearray _is_open
    cdef long long _floor
    cdef bytes _rest

    @cython.locals(tag=cython.longlong)
    cpdef open(self, long long count, long long now_ns)

    cpdef long long outstanding(self)

    cpdef bint has_room(self, long long count)

    @cython.locals(
        octets=bytearray,
        size=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        method=cython.int,
        tag=cython.longlong,
        is_multiple=cython.int,
        each=cython.longlong,
    )
    cpdef feed(self, bytes received, long long now_ns)

    @cython.locals(place=cython.longlong)
    cdef void _settle(self, long long tag, bint is_ack, long long now_ns)


cdef class SeenMessages:
    cdef public long long distinct
    cdef list _seen

    @cython.locals(seen=bytearray)
    cpdef bint mark(self, long long publisher, long long number)


cdef class DeliveryScanner:
    cdef public object view
    cdef public object acks
    cdef public Py_ssize_t filled
    cdef public long long received
    cdef public long long corrupt
    cdef public long long repeated
    cdef public long long disordered
    cdef public unsigned long long last_tag
    cdef public list latencies_ns
    cdef public Py_ssize_t ack_bytes
    cdef public Py_ssize_t fault_at
    cdef bytearray _octets
    cdef bytearray _acks
    cdef SeenMessages _seen
    cdef long long _phase
    cdef Py_ssize_t _lead
    cdef list _last

    @cython.locals(
        octets=bytearray,
        filled=cython.Py_ssize_t,
        at=cython.Py_ssize_t,
        count=cython.Py_ssize_t,
        header_at=cython.Py_ssize_t,
        body_at=cython.Py_ssize_t,
        body_bytes=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        tag_at=cython.Py_ssize_t,
        rest=cython.Py_ssize_t,
        method=cython.int,
    )
    cpdef Py_ssize_t scan(self, long long now_ns)

    @cython.locals(octets=bytearray, left=cython.Py_ssize_t, size=cython.Py_ssize_t)
    cdef Py_ssize_t _end_of(self, Py_ssize_t at, Py_ssize_t body_bytes) noexcept

    @cython.locals(at=cython.Py_ssize_t, i=cython.int)
    cdef void _acknowledge(self, Py_ssize_t tag_at)

    @cython.locals(
        body_at=cython.Py_ssize_t,
        digits_at=cython.Py_ssize_t,
        tail_at=cython.Py_ssize_t,
        end=cython.Py_ssize_t,
        left=cython.Py_ssize_t,
        digest=cython.ulonglong,
        serial=cython.ulonglong,
        number=cython.longlong,
        publisher=cython.longlong,
        phase=cython.longlong,
    )
    cdef _verify(self, Py_ssize_t at, Py_ssize_t body_bytes, long long now_ns)
