from barnabas.log.segment._active_segment cimport LogEnd
from barnabas.server.requests._run cimport Run
from barnabas.wire.fetch._single_fetch cimport SingleAnswer
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class RepeatedFetch:
    cdef object _topic, _partition, _find, _name_of
    cdef SingleAnswer _ready
    cdef int64_t _most, _least, _known_epoch
    cdef bint _read_committed
    cdef Py_ssize_t _offset_at
    cdef bytes _rest

    cpdef answer(self, int64_t offset, int32_t correlation_id)
    cdef bint is_as_usual(self, const uint8_t *frame, Py_ssize_t length) noexcept
    cdef leader(self)
    cdef records(self, LogEnd log, int64_t offset, int64_t upto)
    cdef int serve_run(self, Run *run, list out) except -1
