from barnabas.log._ends cimport Judged, SegmentEnd
from barnabas.server._run cimport Run
from barnabas.wire._plain cimport Answer
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class RepeatedProduce:
    cdef int _version
    cdef tuple _key
    cdef Answer _success
    cdef Py_ssize_t _sized_at
    cdef object _find, _now_ms, _appended, _refuse, _replicated, _acks, _timeout_ms, _topic
    cdef object _partition
    cdef bint _to_all

    cdef serve(
        self,
        view,
        const uint8_t *frame,
        Py_ssize_t frame_at,
        Py_ssize_t size,
        int32_t correlation_id,
    )
    cdef int serve_run(self, Run *run, list out) except -1
    cdef int collect(
        self, const Run *run, SegmentEnd active, int64_t largest, Judged *batches
    ) except -1
    cdef bytes answers(
        self, Run *run, const Judged *batches, int count, int64_t offset, int64_t log_start_offset
    )
