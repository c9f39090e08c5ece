cimport cython
from barnabas.log.segment.active_segment cimport LogEnd
from barnabas.wire.produce.plain_batch cimport PlainBatch
from libc.stdint cimport int64_t


cdef class LeaderReplica:
    cdef public LogEnd log
    cdef public int64_t epoch, epoch_start_offset, high_watermark, largest
    cdef public bint is_sole, _is_plain, _keeps_batches
    cdef public double _max_lag_ms, _now_ms
    cdef public object _config, _in_sync, _safeguards, tenure, topic_id, topic_partition

    @cython.locals(log=LogEnd, first=PlainBatch, base_offset=int64_t)
    cpdef append_plain(self, list batches, int64_t now_ms)
    cdef _on_appended(self)
    cpdef _set_high_watermark(self, int64_t offset)
