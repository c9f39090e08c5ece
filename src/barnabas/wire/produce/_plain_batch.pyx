# cython: boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `plain`."""

import struct

from barnabas.base.checksum import crc32c

from barnabas.wire.records.compression import MAX_DECOMPRESSED_SIZE, Codec

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    FLEXIBLE = 9
    SMALLEST_RECORD = 7
    HEADER_SIZE = 61
    LOG_OVERHEAD = 12
    MAGIC = 2
    CRC_START = 21

cdef int LAST_CODEC = int(Codec.ZSTD)
cdef int64_t ROOM_WHEN_COMPRESSED = MAX_DECOMPRESSED_SIZE


cdef Py_ssize_t find_records(
    int version, const uint8_t *frame, Py_ssize_t size, Py_ssize_t position, Py_ssize_t *end
) except -1:
    cdef uint64_t length = 0
    cdef int shift = 0
    if position < 0 or position + 4 > size:
        raise struct.error("the frame ends before its records")
    if version < FLEXIBLE:
        end[0] = position + 4 + <int32_t>uint_at(frame + position)
        return position + 4 if end[0] == size else 0
    while shift < 28:
        length |= <uint64_t>(frame[position] & 0x7F) << shift
        position += 1
        if frame[position - 1] < 0x80:
            break
        shift += 7
    else:
        return 0
    end[0] = position + <Py_ssize_t>length - 1
    if end[0] + 3 != size or frame[size - 3] or frame[size - 2] or frame[size - 1]:
        return 0
    return position


cdef bint is_plain(const uint8_t *batch, Py_ssize_t size, int64_t largest, Plain *found) except -1:
    if size < HEADER_SIZE or size > largest:
        return False
    cdef int16_t codec = short_at(batch + 21)
    cdef int64_t count = <int32_t>uint_at(batch + 57)
    found.length = <int32_t>uint_at(batch + 8)
    found.count = <int32_t>count
    found.max_timestamp = long_at(batch + 35)
    found.producer_id = long_at(batch + 43)
    found.producer_epoch = short_at(batch + 51)
    found.base_sequence = <int32_t>uint_at(batch + 53)
    if (
        batch[16] != MAGIC
        or long_at(batch)
        or (found.producer_id >= 0 and found.base_sequence < 0)
        or <int64_t>found.length + LOG_OVERHEAD != size
        or codec < 0
        or codec > LAST_CODEC
        or count != <int64_t><int32_t>uint_at(batch + 23) + 1
        or count <= 0
        or count * SMALLEST_RECORD > (ROOM_WHEN_COMPRESSED if codec else <int64_t>found.length)
    ):
        return False
    covered = PyMemoryView_FromMemory(<char *>batch + CRC_START, size - CRC_START, PyBUF_READ)
    return <uint32_t>crc32c(covered) == uint_at(batch + 17)


def last_records(int version, frame not None, Py_ssize_t position):
    cdef Py_buffer buffer
    cdef Py_ssize_t start, end = 0
    PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE)
    try:
        start = find_records(version, <uint8_t *>buffer.buf, buffer.len, position, &end)
    finally:
        PyBuffer_Release(&buffer)
    return frame[start:end] if start else None


def judge_plain(records not None, int64_t largest):
    cdef Py_buffer buffer
    cdef Plain found
    PyObject_GetBuffer(records, &buffer, PyBUF_SIMPLE)
    try:
        if not is_plain(<uint8_t *>buffer.buf, buffer.len, largest, &found):
            return None
    finally:
        PyBuffer_Release(&buffer)
    return (
        found.length,
        found.count,
        found.max_timestamp,
        found.producer_id,
        found.producer_epoch,
        found.base_sequence,
    )


cdef class Answer:
    def __init__(self, bytes whole not None, Py_ssize_t at, Py_ssize_t longs):
        if not 8 <= at <= at + longs <= len(whole) or longs not in (16, 24):
            raise ValueError("the longs do not lie in the frame")
        self._whole = whole
        self._at = at
        self._longs = longs

    cpdef bytes response(
        self, int32_t correlation_id, int64_t first, int64_t second, int64_t third
    ):
        cdef bytes answer = PyBytes_FromStringAndSize(NULL, len(self._whole))
        self.put(<uint8_t *>PyBytes_AS_STRING(answer), correlation_id, first, second, third)
        return answer

    cdef void put(
        self, uint8_t *at, int32_t correlation_id, int64_t first, int64_t second, int64_t third
    ) noexcept:
        """`response` in memory that has room for it."""
        memcpy(at, PyBytes_AS_STRING(self._whole), len(self._whole))
        put_int(at + 4, <uint32_t>correlation_id)
        put_long(at + self._at, first)
        put_long(at + self._at + 8, second)
        if self._longs > 16:
            put_long(at + self._at + 16, third)
