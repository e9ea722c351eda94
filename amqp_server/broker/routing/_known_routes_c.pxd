# C types for the names of _known_routes_py.py, compiled as _known_routes_c.

cimport cython


cdef Py_ssize_t NAMED_MAX
cdef Py_ssize_t KNOWN_WORDS_MAX


@cython.final
cdef class State:
    cdef readonly Py_ssize_t number
    cdef readonly tuple nodes
    cdef readonly list named
    cdef readonly dict following
    cdef public State otherwise
    cdef public object destinations


@cython.final
cdef class Step:
    cdef public object exchange
    cdef readonly dict following
    cdef public object route


@cython.locals(state=State, after=State, word=str)
cpdef State known_end(State start, str routing_key)


@cython.locals(step=Step, after=Step, word_count=cython.Py_ssize_t, visited_count=cython.Py_ssize_t)
cpdef object known_route(Step start, str routing_key)


@cython.locals(words=dict)
cdef bint _names(list named, str word) except -1
