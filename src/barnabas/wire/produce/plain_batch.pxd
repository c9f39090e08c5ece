cimport cython
from barnabas.base cimport buffers
from barnabas.wire.records cimport record_walk
from libc.stdint cimport int32_t, int64_t

cdef int64_t _FLEXIBLE, _HEADER_SIZE, _LOG_OVERHEAD, _MAGIC, _CRC_START, _TRANSACTIONAL
cdef bytes _NO_TAGS
cdef int64_t _LAST_CODEC, _MAX_DECOMPRESSED, _SMALLEST_RECORD, _SMALL_BATCH


@cython.final
@cython.no_gc
cdef class PlainBatch(buffers.BufferSlice):
    cdef public int64_t length, record_count, max_timestamp
    cdef public int64_t producer_id, producer_epoch, base_sequence
    cdef public bint is_transactional


@cython.locals(
    position=Py_ssize_t, length=int64_t, shift=int, byte=int64_t, records_end=Py_ssize_t
)
cpdef (Py_ssize_t, Py_ssize_t) find_records(
    int version, view, Py_ssize_t start, Py_ssize_t end, Py_ssize_t sized_at
)
@cython.locals(
    size=int64_t, length=int64_t, codec=int64_t, count=int64_t, producer_id=int64_t,
    base_sequence=int64_t, max_timestamp=int64_t, first=Py_ssize_t, last=Py_ssize_t,
    fault=int64_t, greatest=int64_t, found=PlainBatch, is_transactional=bint,
)
cpdef PlainBatch judge_plain(
    view, Py_ssize_t start, Py_ssize_t end, int64_t largest, bint may_be_transactional=*
)
@cython.locals(found=PlainBatch)
cpdef PlainBatch as_plain(records, header)


@cython.final
cdef class Answer:
    cdef bytes _whole
    cdef Py_ssize_t _at, _longs

    cpdef bytes response(self, int32_t correlation_id, int64_t first, int64_t second, int64_t third)
    cpdef bytearray several(self, Py_ssize_t count)
    @cython.locals(start=Py_ssize_t, at=Py_ssize_t)
    cpdef int put(
        self,
        responses,
        Py_ssize_t number,
        int32_t correlation_id,
        int64_t first,
        int64_t second,
        int64_t third,
    ) except -1
