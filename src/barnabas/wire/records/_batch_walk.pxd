from libc.stdint cimport int64_t


cdef bint walk(data, int64_t upto, Py_ssize_t *size, int64_t *next_offset) except -1
