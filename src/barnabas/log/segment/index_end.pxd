cimport cython
from barnabas.base cimport buffers
from libc.stdint cimport int64_t

cdef int64_t _OFFSET_SIZE, _TIME_SIZE


cdef class IndexEnd:
    cdef public int64_t base_offset, entries, max_entries, _ready, _latest, _latest_of
    cdef public object _view

    cpdef bint add_offset(self, int64_t offset, int64_t position) except? -1
    cpdef bint add_time(self, int64_t timestamp, int64_t offset) except? -1
    @cython.locals(low=int64_t, high=int64_t, middle=int64_t)
    cpdef int64_t last_position_upto(self, int64_t position) except? -1
    cdef int64_t _next_position(self, int64_t size) except -1
