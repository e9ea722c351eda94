# C types for the names of _sizes_py.py, compiled as _sizes_c.

cimport cython


@cython.locals(total=cython.longlong, message=bytes)
cpdef long long bytes_of(list messages)


@cython.locals(total=cython.longlong, count=cython.Py_ssize_t, message=bytes)
cpdef Py_ssize_t count_within(list messages, long long bytes_max)
