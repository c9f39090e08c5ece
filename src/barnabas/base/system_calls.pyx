# cython: boundscheck=False, wraparound=False
"""The compiled version of `system_calls.py`."""

import os

from barnabas.base.buffers cimport BufferSlice, memory
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, EOPNOTSUPP
from libc.errno cimport errno as last_error
from libc.stdint cimport int64_t
from posix.types cimport off_t
from posix.unistd cimport pwrite

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t writev(int descriptor, const iovec *parts, int count)
    ssize_t pwritev(int descriptor, const iovec *parts, int count, off_t position)

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/uio.h>

    /* Only Linux can read without waiting; elsewhere no call says what is cached. */
    static ssize_t read_if_cached(int descriptor, const struct iovec *part, off_t position) {
    #ifdef RWF_NOWAIT
        return preadv2(descriptor, part, 1, position, RWF_NOWAIT);
    #else
        errno = EOPNOTSUPP;
        return -1;
    #endif
    }
    """
    ssize_t read_if_cached(int descriptor, const iovec *part, off_t position)

MOST_PARTS = 1024

cdef enum:
    AT_ONCE = 64  # iovecs on the stack

cdef char probed[1]


cpdef Py_ssize_t write_slices(int descriptor, list slices, int64_t position) except -1:
    cdef iovec parts[AT_ONCE]
    cdef Py_ssize_t number, count = len(slices)
    cdef BufferSlice each
    if count > AT_ONCE:
        raise ValueError(f"{count} slices are too many for one call")
    for number in range(count):
        each = slices[number]
        parts[number].iov_base = memory(each.view, each.at, each.size)
        parts[number].iov_len = each.size
    return written_at(descriptor, parts, count, position)


cpdef Py_ssize_t write_buffer(int descriptor, data, int64_t position) except -1:
    cdef Py_buffer buffer
    cdef iovec part
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        part.iov_base, part.iov_len = buffer.buf, buffer.len
        return written_at(descriptor, &part, 1, position)
    finally:
        PyBuffer_Release(&buffer)


cdef Py_ssize_t written_at(
    int descriptor, const iovec *parts, int count, int64_t position
) except -1:
    cdef ssize_t written = -1
    cdef int problem = EINTR
    with nogil:
        while written < 0 and problem == EINTR:
            if count == 1:  # a call that copies no list of parts
                written = pwrite(descriptor, parts.iov_base, parts.iov_len, position)
            else:
                written = pwritev(descriptor, parts, count, position)
            problem = last_error if written < 0 else 0
    if written < 0:
        raise OSError(problem, os.strerror(problem))
    return written


cpdef Py_ssize_t send_parts(int descriptor, list parts) except -1:
    cdef Py_ssize_t sent = 0, total = 0, start = 0
    cdef ssize_t size
    while start < min(len(parts), <Py_ssize_t>MOST_PARTS) and sent == total:
        size = send_some(descriptor, parts, start, &total)
        if size < 0:
            break
        sent += size
        start += AT_ONCE
    return sent


cdef ssize_t send_some(int descriptor, list parts, Py_ssize_t start, Py_ssize_t *total) except? -1:
    """Send the parts from `start` on, as many as one call sends; add their sizes to `total`."""
    cdef Py_buffer buffers[AT_ONCE]
    cdef iovec vector[AT_ONCE]
    cdef int count = 0, held
    try:
        while count < AT_ONCE and start + count < len(parts):
            PyObject_GetBuffer(parts[start + count], &buffers[count], PyBUF_SIMPLE)
            vector[count].iov_base = buffers[count].buf
            vector[count].iov_len = buffers[count].len
            total[0] += buffers[count].len
            count += 1
        return writev(descriptor, vector, count)
    finally:
        for held in range(count):
            PyBuffer_Release(&buffers[held])


cpdef bint is_cached(int descriptor, int64_t position) except -1:
    cdef iovec part = [probed, 1]
    cdef ssize_t got = read_if_cached(descriptor, &part, position)
    if got >= 0:
        return got == 1
    if last_error == EOPNOTSUPP:
        return True
    if last_error == EAGAIN or last_error == EINTR:
        return False
    raise OSError(last_error, os.strerror(last_error))
