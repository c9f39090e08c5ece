cimport cython
from barnabas.base cimport buffers
from libc.stdint cimport int32_t

cdef Py_ssize_t _HEAD_SIZE


@cython.final
@cython.no_gc
@cython.freelist(4)
cdef class FrameRun:
    cdef public object view
    cdef public list out
    cdef public Py_ssize_t start, end, most, known, served, last_size, queued

    @cython.locals(length=Py_ssize_t)
    cpdef Py_ssize_t length_at(self, Py_ssize_t start) except -1
    cpdef bint is_alike(self, Py_ssize_t other) except -1
    cpdef int32_t correlation_id(self) except? -1
    cpdef int pass_over(self, Py_ssize_t length) except -1
    cpdef int add(self, response) except -1
