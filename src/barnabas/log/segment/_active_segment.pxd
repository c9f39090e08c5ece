from barnabas.log.segment._index_end cimport IndexEnd
from libc.stdint cimport int32_t, int64_t, uint8_t


cdef enum:
    MOST_TOGETHER = 32  # batches in one write


# A batch that was judged, in memory that may be written to.
cdef struct Judged:
    uint8_t *at
    Py_ssize_t size
    int32_t length
    int32_t count
    int64_t max_timestamp


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
    cpdef append(self, batch, int64_t last_offset, int64_t max_timestamp)
    cpdef note(self, int64_t size, int64_t last_offset, int64_t max_timestamp)
    cdef int64_t room(self)
    cpdef _add_index_entries(self, int64_t last_offset, int64_t position)
    cdef int fitting(
        self, const Judged *batches, int count, int64_t offset, int64_t now_ms, config
    ) except -1
    cpdef read_on(self, int64_t offset, int64_t max_bytes, int64_t upto)
    cpdef _remember(self, int64_t offset, int64_t position)


cdef class LogEnd:
    cdef public int64_t log_start_offset, log_end_offset, _epoch
    cdef public bint is_unsettled
    cdef public object folder, config, failure
    cdef public SegmentEnd _active

    cpdef int64_t append_unsequenced(
        self,
        batch,
        int64_t batch_length,
        int64_t count,
        int64_t max_timestamp,
        int64_t epoch,
        int64_t now_ms,
    ) except? -1
    cdef int append_together(
        self, Judged *batches, int count, int64_t epoch, int64_t now_ms
    ) except -1
    cpdef read_warm(self, int64_t offset, int64_t max_bytes, int64_t upto)
