from libc.stdint cimport int64_t


cdef class OpenFile:
    cdef public int _descriptor
    cdef public int64_t size, _start
    cdef public object _folder, _handed_out, _view

    cdef write(self, data)
    cdef undo(self, int problem)
    cdef warm_at(self, int64_t position, int64_t size)
