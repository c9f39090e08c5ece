cimport cython
from barnabas.base cimport buffers
from libc.stdint cimport int32_t, int64_t


@cython.final
cdef class SingleAnswer:
    cdef bytes _template, _tail
    cdef Py_ssize_t _at, _longs

    cpdef list response(
        self,
        int32_t correlation_id,
        int64_t high_watermark,
        int64_t last_stable_offset,
        int64_t log_start_offset,
        records,
    )
    @cython.locals(size=Py_ssize_t, total=Py_ssize_t, sized=bytes)
    cpdef Py_ssize_t add(
        self,
        list parts,
        int32_t correlation_id,
        int64_t high_watermark,
        int64_t last_stable_offset,
        int64_t log_start_offset,
        records,
    ) except -1
