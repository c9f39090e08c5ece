cimport cython
from barnabas.base cimport buffers
from barnabas.disk cimport open_file
from barnabas.log.segment.active_segment cimport LogEnd
from barnabas.replication.leader.leader_replica cimport LeaderReplica
from barnabas.server.requests.frame_run cimport FrameRun
from barnabas.wire.fetch.single_answer cimport SingleAnswer
from libc.stdint cimport int32_t, int64_t

cdef Py_ssize_t _SEND_AT


@cython.final
cdef class RepeatedFetch:
    cdef object _topic, _partition, _find, _name_of
    cdef SingleAnswer _ready
    cdef int64_t _most, _least, _known_epoch
    cdef bint _read_committed
    cdef Py_ssize_t _offset_at
    cdef bytes _rest

    @cython.locals(leader=LeaderReplica, log=LogEnd, high_watermark=int64_t, stable=int64_t, start=int64_t)
    cpdef answer(self, int64_t offset, int32_t correlation_id)
    @cython.locals(
        leader=LeaderReplica, log=LogEnd, high_watermark=int64_t, stable=int64_t, upto=int64_t, length=Py_ssize_t,
        at=Py_ssize_t, after=Py_ssize_t, is_next_alike=bint,
    )
    cpdef serve_run(self, FrameRun run)
    cdef bint _is_alike_after(self, FrameRun run, Py_ssize_t after) except -1
    @cython.locals(rest=Py_ssize_t)
    cdef bint _is_as_usual(self, view, Py_ssize_t start, Py_ssize_t end) except -1
    cdef _leader(self)
    cdef _records(self, LogEnd log, int64_t offset, int64_t upto)
