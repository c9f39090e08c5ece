from libc.stdint cimport int32_t, int64_t


cdef class SingleAnswer:
    cdef bytes _head, _middle, _tail
    cdef Py_ssize_t _longs

    cpdef list response(
        self,
        int32_t correlation_id,
        int64_t high_watermark,
        int64_t last_stable_offset,
        int64_t log_start_offset,
        records,
    )
    cdef Py_ssize_t add(
        self,
        list parts,
        int32_t correlation_id,
        int64_t high_watermark,
        int64_t last_stable_offset,
        int64_t log_start_offset,
        records,
        Py_ssize_t size,
    ) except -1
