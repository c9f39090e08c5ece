cimport cython
from barnabas.log.segment.active_segment cimport LogEnd
from barnabas.replication.leader.leader_replica cimport LeaderReplica
from barnabas.server.requests.frame_run cimport FrameRun
from barnabas.wire.produce cimport plain_batch
from barnabas.wire.produce.plain_batch cimport Answer, PlainBatch
from libc.stdint cimport int64_t

cdef int64_t _MOST_TOGETHER


@cython.final
cdef class RepeatedProduce:
    cdef int _version
    cdef tuple _key
    cdef Answer _success
    cdef Py_ssize_t _sized_at
    cdef object _leader_of, _now_ms, _wake, _refuse, _acknowledge, _acks, _timeout_ms
    cdef bint _is_transactional, _to_all
    cdef object _plain_config
    cdef int64_t _largest

    @cython.locals(batches=list, leader=LeaderReplica)
    cpdef serve_run(self, FrameRun run)
    cdef bint _is_plain(self, LeaderReplica leader) except -1
    @cython.locals(
        found=list, at=Py_ssize_t, number=int64_t, length=Py_ssize_t, end=Py_ssize_t,
        batch=PlainBatch,
    )
    cdef list _collect(self, FrameRun run, int64_t most)
    @cython.locals(first=Py_ssize_t, last=Py_ssize_t)
    cdef PlainBatch _batch_in(self, view, Py_ssize_t start, Py_ssize_t end)
    @cython.locals(
        success=Answer, start_offset=int64_t, count=int64_t, number=int64_t, batch=PlainBatch
    )
    cdef _answer(self, FrameRun run, list batches, int64_t offset, LogEnd log)


@cython.locals(count=int64_t, batch=PlainBatch)
cdef int64_t _count_within(list batches, int64_t records) except -1
