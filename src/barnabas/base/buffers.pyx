# cython: boundscheck=False, wraparound=False
"""The compiled version of `buffers.py`."""

cimport cython

import struct

from barnabas.base.checksum import crc32c

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

@cython.no_gc
cdef class BufferSlice:
    pass


cdef int refuse(view, Py_ssize_t at, Py_ssize_t size) except -1:
    if not PyMemoryView_Check(view):
        raise TypeError(f"a memoryview, not {type(view).__name__}")
    raise struct.error(f"{len(view)} bytes have no {size} at {at}")


cdef int refuse_readonly() except -1:
    raise TypeError("the memory is read-only")


cdef int refuse_int(int64_t value) except -1:
    raise struct.error(f"{value} is no int32")


def slice_of(view, Py_ssize_t at, Py_ssize_t size):
    memory(view, at, size)
    return view[at : at + size]


# The inline functions of `buffers.pxd`, for callers that are not compiled.
globals().update(
    memory=slice_of,
    varint_at=lambda view, at, end, bits: varint_at(memory(view, 0, end), at, end, bits),
    byte_at=lambda view, at: byte_at(view, at),
    short_at=lambda view, at: short_at(view, at),
    int_at=lambda view, at: int_at(view, at),
    uint_at=lambda view, at: uint_at(view, at),
    long_at=lambda view, at: long_at(view, at),
    put_int=lambda view, at, value: put_int(view, at, value),
    put_long=lambda view, at, value: put_long(view, at, value),
)


cpdef bytes bytes_at(view, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<char *>memory(view, start, end - start), end - start)


cpdef bint are_equal(view, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size) except -1:
    return not memcmp(memory(view, one, size), memory(view, other, size), size)


cpdef bint is_at(view, Py_ssize_t start, Py_ssize_t end, bytes expected) except -1:
    cdef const uint8_t *found = memory(view, start, end - start)
    if end - start != len(expected):
        return False
    return not memcmp(found, PyBytes_AS_STRING(expected), end - start)


@cython.final
@cython.no_gc
cdef class Covered:
    """The bytes that the next CRC covers: a buffer that costs no allocation."""

    cdef uint8_t *at
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.at, self.size, 1, flags)


cdef Covered covered = Covered()


cpdef uint32_t crc_of(view, Py_ssize_t start, Py_ssize_t end) except? 1:
    covered.at = memory(view, start, end - start)
    covered.size = end - start
    return crc32c(covered)


cdef (int64_t, int64_t) long_varint_at(
    const uint8_t *memory, int64_t position, int64_t end, int64_t bits
) noexcept:
    cdef uint64_t byte, value = 0
    cdef int64_t shift = 0
    while position < end and shift < bits:
        byte = memory[position]
        if shift + 7 > bits and byte >> (bits - shift):
            return 0, -1
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return <int64_t>((value >> 1) ^ (0 - (value & 1))), position
        shift += 7
    return 0, -1


cpdef bytes uvarint(uint32_t value):
    cdef char out[5]
    cdef Py_ssize_t width = 0
    while value > 0x7F:
        out[width] = <char>(value & 0x7F | 0x80)
        value >>= 7
        width += 1
    out[width] = <char>value
    return PyBytes_FromStringAndSize(out, width + 1)


cpdef bytes filled(
    bytes template,
    Py_ssize_t size,
    int32_t correlation_id,
    Py_ssize_t at,
    Py_ssize_t longs,
    int64_t first,
    int64_t second,
    int64_t third,
    bytes end,
):
    cdef Py_ssize_t length = len(template)
    cdef bytes response
    cdef uint8_t *out
    if not 8 <= at <= at + longs <= length or longs not in (16, 24):
        raise ValueError("the int64s do not lie in the template")
    response = PyBytes_FromStringAndSize(NULL, length + len(end))
    out = <uint8_t *>PyBytes_AS_STRING(response)
    memcpy(out, PyBytes_AS_STRING(template), length)
    memcpy(out + length, PyBytes_AS_STRING(end), len(end))
    store_int(out, <uint32_t>size)
    store_int(out + 4, <uint32_t>correlation_id)
    store_long(out + at, first)
    store_long(out + at + 8, second)
    if longs > 16:
        store_long(out + at + 16, third)
    return response
