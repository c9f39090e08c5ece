# cython: boundscheck=False, wraparound=False
"""The compiled twin of `sending`."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t writev(int descriptor, const iovec *parts, int count)

cdef enum:
    MOST_PARTS = 1024
    MOST_AT_ONCE = 64


def send_now(int descriptor, list parts not None):
    cdef Py_ssize_t sent = 0, total = 0, start = 0
    cdef ssize_t size = 0
    while start < min(len(parts), MOST_PARTS) and sent == total:
        size = send_some(descriptor, parts, start, &total)
        if size < 0:
            break
        sent += size
        start += MOST_AT_ONCE
    return sent


cdef ssize_t send_some(int descriptor, list parts, Py_ssize_t start, Py_ssize_t *total) except? -1:
    """Send the parts from `start` on, a call's worth of them; adds to `total` what they come to."""
    cdef Py_buffer buffers[MOST_AT_ONCE]
    cdef iovec vector[MOST_AT_ONCE]
    cdef int count = 0, held
    try:
        while count < MOST_AT_ONCE and start + count < len(parts):
            PyObject_GetBuffer(parts[start + count], &buffers[count], PyBUF_SIMPLE)
            vector[count].iov_base = buffers[count].buf
            vector[count].iov_len = buffers[count].len
            total[0] += buffers[count].len
            count += 1
        return writev(descriptor, vector, count)
    finally:
        for held in range(count):
            PyBuffer_Release(&buffers[held])
