# cython: boundscheck=False, wraparound=False
"""The compiled twin of `index_end`."""

import struct

from barnabas.wire.produce._plain_batch cimport put_int, put_long, uint_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

cdef enum:
    OFFSET_ENTRY = 8
    TIME_ENTRY = 12


cdef class IndexEnd:
    def __init__(self, int64_t base_offset, int64_t max_entries, int64_t entries):
        self.base_offset = base_offset
        self.max_entries = max_entries
        self.entries = entries
        self._view = memoryview(b"")
        self._latest = -1

    cpdef bint add_offset(self, int64_t offset, int64_t position) except? -1:
        cdef uint8_t entry[OFFSET_ENTRY]
        put_int(entry, small(offset - self.base_offset))
        put_int(entry + 4, small(position))
        self.put(entry, OFFSET_ENTRY)
        return self.entries >= self.max_entries

    cpdef bint add_time(self, int64_t timestamp, int64_t offset) except? -1:
        cdef uint8_t entry[TIME_ENTRY]
        if self._latest_of != self.entries:
            self._latest, self._latest_of = self.last[0], self.entries
        if timestamp > self._latest:
            put_long(entry, timestamp)
            put_int(entry + 8, small(offset - self.base_offset))
            self.put(entry, TIME_ENTRY)
            self._latest, self._latest_of = timestamp, self.entries
        return self.entries >= self.max_entries - 1

    cpdef int64_t last_position_upto(self, int64_t position) except? -1:
        cdef Py_buffer buffer
        cdef int64_t low = 0, high = self.entries, middle
        PyObject_GetBuffer(self._view, &buffer, PyBUF_SIMPLE)
        try:
            if high > buffer.len // OFFSET_ENTRY:
                raise struct.error(f"{buffer.len} bytes are not {high} entries")
            while low < high:
                middle = (low + high) // 2
                if position < position_at(<uint8_t *>buffer.buf, middle):
                    high = middle
                else:
                    low = middle + 1
            return position_at(<uint8_t *>buffer.buf, low - 1) if low else 0
        finally:
            PyBuffer_Release(&buffer)

    cdef int put(self, const uint8_t *entry, Py_ssize_t size) except -1:
        cdef Py_buffer buffer
        cdef int64_t at = self.entries * size
        if at + size > self._ready:
            self._make_ready(at)
        PyObject_GetBuffer(self._view, &buffer, PyBUF_WRITABLE)
        try:
            if at + size > buffer.len:
                raise struct.error(f"no room for {size} bytes at {at} of {buffer.len}")
            memcpy(<uint8_t *>buffer.buf + at, entry, size)
        finally:
            PyBuffer_Release(&buffer)
        self.entries += 1
        return 0


cdef inline int64_t position_at(const uint8_t *entries, int64_t number) noexcept:
    return <int32_t>uint_at(entries + number * OFFSET_ENTRY + 4)


cdef inline uint32_t small(int64_t value) except? 0:
    if not -(2**31) <= value < 2**31:
        raise struct.error(f"{value} is no int32")
    return <uint32_t>value
