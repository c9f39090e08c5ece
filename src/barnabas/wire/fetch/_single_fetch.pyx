# cython: boundscheck=False, wraparound=False
"""The compiled twin of the answer in `fetch_single`."""

from barnabas.wire.produce._plain_batch cimport put_int, put_long
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy


cdef class SingleAnswer:
    def __init__(
        self, bytes head not None, Py_ssize_t longs, bytes middle not None, bytes tail not None
    ):
        if longs not in (16, 24):
            raise ValueError(f"there are two or three longs, not {longs} bytes")
        self._head = head
        self._longs = longs
        self._middle = middle
        self._tail = tail

    cpdef list response(
        self,
        int32_t correlation_id,
        int64_t high_watermark,
        int64_t last_stable_offset,
        int64_t log_start_offset,
        records,
    ):
        cdef list parts = []
        self.add(
            parts,
            correlation_id,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            records,
            len(records),
        )
        return parts

    cdef Py_ssize_t add(
        self,
        list parts,
        int32_t correlation_id,
        int64_t high_watermark,
        int64_t last_stable_offset,
        int64_t log_start_offset,
        records,
        Py_ssize_t size,
    ) except -1:
        """Add the parts of the frame to `parts`; how many bytes it has beside its records."""
        cdef Py_ssize_t head = len(self._head), middle = len(self._middle), tail = len(self._tail)
        cdef int width = varint_width(size + 1) if tail else 4
        cdef Py_ssize_t whole = 8 + head + self._longs + middle + width
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, whole)
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(frame)
        put_int(at, <uint32_t>(whole - 4 + size + tail))
        put_int(at + 4, <uint32_t>correlation_id)
        memcpy(at + 8, PyBytes_AS_STRING(self._head), head)
        at += 8 + head
        put_long(at, high_watermark)
        put_long(at + 8, last_stable_offset)
        if self._longs > 16:
            put_long(at + 16, log_start_offset)
        at += self._longs
        memcpy(at, PyBytes_AS_STRING(self._middle), middle)
        at += middle
        parts.append(frame)
        parts.append(records)
        if tail:
            put_varint(at, <uint32_t>(size + 1))
            parts.append(self._tail)
        else:
            put_int(at, <uint32_t>size)
        return whole + tail


cdef inline int varint_width(Py_ssize_t value) noexcept:
    cdef int width = 1
    while value > 0x7F:
        value >>= 7
        width += 1
    return width


cdef inline void put_varint(uint8_t *at, uint32_t value) noexcept:
    while value > 0x7F:
        at[0] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    at[0] = value
