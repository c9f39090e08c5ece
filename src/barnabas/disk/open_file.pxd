from barnabas.base cimport system_calls
from libc.stdint cimport int64_t

cdef int64_t _MAP_FROM, _MAP_AHEAD, _PROBE_EVERY, _look

cpdef void look_again() noexcept


cdef class OpenFile:
    cdef public int _descriptor
    cdef public int64_t size, _start, _seen, _seen_in
    cdef public int64_t _read_from, _read_to, _fresh_from, _noted_at
    cdef public bint _is_fresh, _is_hot
    cdef public object _log_dir, _inode, _inodes, _resident, _view
    cdef object __weakref__

    cdef append_slices(self, list slices, int64_t size)
    cdef int _on_written(self, int64_t written, int64_t size) except -1
    cdef warm_in_look(self, int64_t position, int64_t size)
    cdef bint _is_warm(self, int64_t position, int64_t end) except -1
    cdef int _note(self, int64_t position, int64_t end) except -1
