from libc.stdint cimport int64_t

cpdef Py_ssize_t write_slices(int descriptor, list slices, int64_t position) except -1
cpdef Py_ssize_t write_buffer(int descriptor, data, int64_t position) except -1
cpdef Py_ssize_t send_parts(int descriptor, list parts) except -1
cpdef bint is_cached(int descriptor, int64_t position) except -1
