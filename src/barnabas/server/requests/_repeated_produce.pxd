from barnabas.log.segment._active_segment cimport Judged, SegmentEnd
from barnabas.server.requests._run cimport Run
from barnabas.wire.produce._plain_batch cimport Answer
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class RepeatedProduce:
    cdef int _version
    cdef tuple _key
    cdef Answer _success
    cdef Py_ssize_t _sized_at
    cdef object _leader_of, _now_ms, _is_watched, _appended, _refuse, _replicated, _acks
    cdef object _timeout_ms
    cdef bint _to_all
    # Of which it is known that it asks for nothing special, and how large it lets a batch be.
    cdef object _plain_config
    cdef int64_t _largest

    cdef bint is_plain(self, leader) except -1

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
