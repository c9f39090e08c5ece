# cython: boundscheck=False, wraparound=False
"""The compiled twin of `whole`."""

from barnabas.wire.produce._plain_batch cimport long_at, uint_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    MOST_WALKED = 8
    HEADER_SIZE = 61
    LOG_OVERHEAD = 12


def whole_batches(data not None, int64_t upto):
    cdef Py_ssize_t size = 0
    cdef int64_t next_offset = 0
    return (size, next_offset) if walk(data, upto, &size, &next_offset) else None


cdef bint walk(data, int64_t upto, Py_ssize_t *size, int64_t *next_offset) except -1:
    """Whether it can be told how many bytes are whole batches, and the offset after them."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        return walked(<uint8_t *>buffer.buf, buffer.len, upto, size, next_offset)
    finally:
        PyBuffer_Release(&buffer)


cdef bint walked(
    const uint8_t *data,
    Py_ssize_t end,
    int64_t upto,
    Py_ssize_t *size,
    int64_t *next_offset,
) noexcept:
    cdef Py_ssize_t position = 0, after
    cdef int64_t last_offset
    cdef int32_t length
    cdef int batch
    for batch in range(MOST_WALKED):
        if position + HEADER_SIZE > end:
            return True
        length = <int32_t>uint_at(data + position + 8)
        if length < HEADER_SIZE - LOG_OVERHEAD:
            return False
        after = position + LOG_OVERHEAD + length
        last_offset = long_at(data + position) + <int32_t>uint_at(data + position + 23)
        if after > end or last_offset >= upto:
            return True
        position = size[0] = after
        next_offset[0] = last_offset + 1
    return position + HEADER_SIZE > end
