# C types for the names of _body_sizes_py.py, compiled as _body_sizes_c.

cimport cython

from amqp_server.protocol._headers_c cimport body_position

cdef bint COMPILED


@cython.locals(
    total=cython.longlong,
    size=cython.Py_ssize_t,
    place=cython.int,
    last=cython.int,
    run=cython.longlong,
    message=bytes,
)
cpdef long long count_bodies(list messages, list counts) except -1
