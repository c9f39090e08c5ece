from libc.stdint cimport int64_t

cdef extern from "sys/uio.h" nogil:
    cdef struct iovec:
        void *iov_base
        size_t iov_len

# What the page cache was seen to have counts until this is called: for requests of one read.
cdef void look_anew() noexcept


cdef class OpenFile:
    cdef int64_t _seen, _seen_in
    cdef public int _descriptor
    cdef public int64_t size, _start, _read_from, _read_to, _fresh_from, _noted_at
    cdef public bint _is_fresh, _is_hot
    cdef public object _folder, _handed_out, _resident, _view
    cdef object __weakref__

    cdef write(self, data)
    cdef int write_parts(self, const iovec *parts, int count, Py_ssize_t size) except -1
    cdef undo(self, int problem)
    cdef warm_at(self, int64_t position, int64_t size)
    cdef bint is_warm(self, int64_t position, int64_t end) except -1
    cdef int note(self, int64_t position, int64_t end) except -1
