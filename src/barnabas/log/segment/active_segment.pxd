cimport cython
from barnabas.base cimport buffers
from barnabas.disk cimport open_file
from barnabas.log.segment.index_end cimport IndexEnd
from barnabas.wire.produce.plain_batch cimport PlainBatch
from barnabas.wire.records cimport batch_walk
from libc.stdint cimport int64_t

cdef int64_t _MAX_RELATIVE, _MOST_TOGETHER, _MAX_CURSORS, _LAST_OFFSET_DELTA


cdef class SegmentEnd:
    cdef public int64_t base_offset, end_offset, size, max_timestamp, max_timestamp_offset
    cdef public int64_t created_ms, jitter_ms, _index_interval, _since_entry
    cdef public bint is_full, is_dirty, is_index_dirty
    cdef public IndexEnd offset_index, time_index
    cdef public object _file, _first_timestamp
    cdef public dict _cursors

    cpdef bint should_roll(
        self, int64_t size, int64_t last_offset, int64_t max_timestamp, int64_t now_ms, config
    ) except -1
    @cython.locals(first=int64_t, waited_ms=int64_t)
    cdef bint exceeds(
        self, int64_t size, int64_t last_offset, int64_t max_timestamp, int64_t now_ms,
        int64_t segment_bytes, int64_t segment_ms,
    ) except -1
    @cython.locals(
        size=int64_t, room=int64_t, since_entry=int64_t, count=int64_t, number=int64_t,
        batch=PlainBatch,
    )
    cdef int64_t fitting(
        self, list batches, int64_t offset, int64_t now_ms, int64_t segment_bytes, int64_t segment_ms
    ) except -1
    @cython.locals(offsets=int64_t, times=int64_t)
    cdef int64_t _room(self)
    @cython.locals(size=int64_t, batch=PlainBatch, opened=open_file.OpenFile)
    cdef append_batches(self, list batches, int64_t offset)
    @cython.locals(position=int64_t)
    cpdef note(self, int64_t size, int64_t last_offset, int64_t max_timestamp)
    cpdef _add_index_entries(self, int64_t last_offset, int64_t position)
    @cython.locals(start=int64_t, left=int64_t, size=int64_t, next_offset=int64_t)
    cpdef read_on(self, int64_t offset, int64_t max_bytes, int64_t upto)
    cpdef _remember(self, int64_t offset, int64_t position)


@cython.locals(opened=open_file.OpenFile)
cdef _warm(file, int64_t position, int64_t size)


cdef class LogEnd:
    cdef public int64_t log_start_offset, log_end_offset, aborted_upto, _epoch
    cdef public bint is_unsettled
    cdef public object directory, config, failure, producers
    cdef public SegmentEnd _active

    @cython.locals(base_offset=int64_t, end=int64_t, fitting=list, batch=PlainBatch)
    cpdef int64_t append_batches(self, list batches, int64_t epoch, int64_t now_ms) except? -1
    @cython.locals(
        first=PlainBatch, active=SegmentEnd, end=int64_t, last_offset=int64_t, count=int64_t,
        segment_bytes=int64_t, segment_ms=int64_t,
    )
    cdef list _fitting(self, list batches, int64_t now_ms)
    @cython.locals(offset=int64_t, batch=PlainBatch, at=Py_ssize_t)
    cdef int64_t _stamp(self, list batches, int64_t epoch) except -1
    @cython.locals(active=SegmentEnd)
    cpdef read_warm(self, int64_t offset, int64_t max_bytes, int64_t upto)
