# cython: boundscheck=False, wraparound=False
"""The compiled twin of `open_file`."""

import os
import weakref

from barnabas.base.errors import DiskFault
from barnabas.disk.page_cache import copy_if_cached, map_from
from barnabas.disk.resident import LEAST, MOST_BYTES

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EAGAIN, EINTR, ENOSPC, EOPNOTSUPP
from libc.errno cimport errno as last_error
from libc.stdint cimport int64_t
from posix.types cimport off_t

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object view)

cdef extern from "sys/uio.h" nogil:
    ssize_t pwritev(int descriptor, const iovec *parts, int count, off_t position)

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/uio.h>

    /* Only Linux can read without waiting; elsewhere nobody can tell what is cached. */
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

cdef enum:
    MAP_FROM = 128 * 1024
    MAP_AHEAD = 1024 * 1024
    PROBE_EVERY = 128 * 1024


cdef class OpenFile:
    def __cinit__(self):
        self._descriptor = -1

    def __init__(self, folder, int descriptor, resident not None):
        self._folder = folder
        self._descriptor = descriptor
        self._resident = resident
        self.size = os.fstat(descriptor).st_size
        self._view = memoryview(b"")
        self._handed_out = weakref.WeakKeyDictionary()

    def append(self, data not None, /):
        self.write(data)

    cdef write(self, data):
        cdef Py_buffer buffer
        cdef iovec part
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            part.iov_base, part.iov_len = buffer.buf, buffer.len
            self.write_parts(&part, 1, buffer.len)
        finally:
            PyBuffer_Release(&buffer)

    cdef int write_parts(self, const iovec *parts, int count, Py_ssize_t size) except -1:
        """`append` for what lies in several places and comes to `size` bytes."""
        cdef ssize_t written = -1
        cdef int problem = EINTR
        with nogil:
            while written < 0 and problem == EINTR:
                written = pwritev(self._descriptor, parts, count, self.size)
                problem = last_error if written < 0 else 0
        if written != size:
            self.undo(problem or ENOSPC)
        self.size += written
        return 0

    cdef undo(self, int problem):
        try:
            os.ftruncate(self._descriptor, self.size)
        except OSError:
            pass  # what is behind the end is not looked at
        error = OSError(problem, os.strerror(problem))
        raise DiskFault(self._folder, error) from error

    def warm(self, int64_t position, int64_t size, /):
        look_anew()
        return self.warm_at(position, size)

    cdef warm_at(self, int64_t position, int64_t size):
        cdef int64_t end = position + size
        try:
            if position < self._start or end > self._start + PyMemoryView_GET_BUFFER(self._view).len:
                if size < MAP_FROM and self.size - end < MAP_AHEAD:
                    return copy_if_cached(self._descriptor, position, size)
                mapped, start = map_from(self._descriptor, position, self.size)
                self._handed_out[mapped] = self.size
                self._view, self._start = memoryview(mapped), start
            if not self.is_warm(position, end):
                return None
        except OSError as error:
            raise DiskFault(self._folder, error) from error
        if end > self._read_to:
            self.note(position, end)
        elif position < self._noted_at:
            self._is_hot = True
            if position < self._read_from:
                self._read_from = position
        return self._view[position - self._start : end - self._start]

    cdef int note(self, int64_t position, int64_t end) except -1:
        cdef int64_t fresh
        resident = self._resident
        if not self._read_to:
            resident.files.append(weakref.ref(self))
            self._read_from = self._fresh_from = position
        elif position < self._read_from:
            self._read_from = position
        if not self._is_fresh:
            self._is_fresh = True
            resident.fresh.append(weakref.ref(self))
            resident.fresh_bytes += LEAST
        fresh = <int64_t>resident.fresh_bytes + end - max(position, self._read_to)
        resident.fresh_bytes = fresh
        self._read_to, self._noted_at = end, position
        if fresh > most_bytes:
            resident.give_back()
        return 0

    cdef bint is_warm(self, int64_t position, int64_t end) except -1:
        if self._seen_in == looks and self._seen <= position and end <= self._seen + PROBE_EVERY:
            return True
        while position < end:
            if not is_cached(self._descriptor, position):
                return False
            self._seen, self._seen_in = position, looks
            position += PROBE_EVERY
        return True


cdef int64_t most_bytes = MOST_BYTES
cdef int64_t looks = 1


cdef void look_anew() noexcept:
    global looks
    looks += 1


cdef char probed[1]


cdef bint is_cached(int descriptor, int64_t position) except -1:
    cdef iovec part = [probed, 1]
    cdef ssize_t got = read_if_cached(descriptor, &part, position)
    if got >= 0:
        return got == 1
    if last_error == EOPNOTSUPP:
        return True
    if last_error == EAGAIN or last_error == EINTR:
        return False
    raise OSError(last_error, os.strerror(last_error))
