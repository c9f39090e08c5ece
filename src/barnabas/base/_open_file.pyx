# cython: boundscheck=False, wraparound=False
"""The compiled twin of `open_file`."""

import errno
import os
import weakref

from barnabas.base.errors import DiskFault
from barnabas.base.page_cache import copy_if_cached, map_from

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, EOPNOTSUPP, errno as last_error
from libc.stdint cimport int64_t
from posix.types cimport off_t

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object view)

cdef extern from "unistd.h" nogil:
    ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t position)

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    enum:
        RWF_NOWAIT
    ssize_t preadv2(int descriptor, const iovec *parts, int count, off_t position, int flags)

cdef enum:
    MAP_FROM = 128 * 1024
    MAP_AHEAD = 1024 * 1024
    PROBE_EVERY = 128 * 1024


cdef class OpenFile:
    def __cinit__(self):
        self._descriptor = -1

    def __init__(self, folder, int descriptor):
        self._folder = folder
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._view = memoryview(b"")
        self._handed_out = weakref.WeakKeyDictionary()

    def append(self, data not None, /):
        self.write(data)

    cdef write(self, data):
        cdef Py_buffer buffer
        cdef ssize_t written
        cdef int problem
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            with nogil:
                written = pwrite(self._descriptor, buffer.buf, buffer.len, self.size)
                while written < 0 and last_error == EINTR:
                    written = pwrite(self._descriptor, buffer.buf, buffer.len, self.size)
                problem = last_error
            if written != buffer.len:
                self.undo(problem if written < 0 else errno.ENOSPC)
            self.size += written
        finally:
            PyBuffer_Release(&buffer)

    cdef undo(self, int problem):
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            pass  # what is behind the end is not looked at
        error = OSError(problem, os.strerror(problem))
        raise DiskFault(self._folder, error) from error

    def warm(self, int64_t position, int64_t size, /):
        return self.warm_at(position, size)

    cdef warm_at(self, int64_t position, int64_t size):
        cdef int64_t end = position + size, probe = position
        try:
            if position < self._start or end > self._start + PyMemoryView_GET_BUFFER(self._view).len:
                if size < MAP_FROM and self.size - end < MAP_AHEAD:
                    return copy_if_cached(self._descriptor, position, size)
                mapped, start = map_from(self._descriptor, position, self.size)
                self._handed_out[mapped] = self.size
                self._view, self._start = memoryview(mapped), start
            while probe < end:
                if not is_cached(self._descriptor, probe):
                    return None
                probe += PROBE_EVERY
        except OSError as error:
            raise DiskFault(self._folder, error) from error
        return self._view[position - self._start : end - self._start]


cdef char probed[1]


cdef bint is_cached(int descriptor, int64_t position) except -1:
    cdef iovec part = [probed, 1]
    cdef ssize_t got = preadv2(descriptor, &part, 1, position, RWF_NOWAIT)
    if got >= 0:
        return got == 1
    if last_error == EOPNOTSUPP:
        return True
    if last_error == EAGAIN:
        return False
    raise OSError(last_error, os.strerror(last_error))
