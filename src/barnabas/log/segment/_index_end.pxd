from libc.stdint cimport int64_t, uint8_t


cdef class IndexEnd:
    cdef public int64_t base_offset, entries, max_entries, _ready, _latest, _latest_of
    cdef public object _view

    cpdef bint add_offset(self, int64_t offset, int64_t position) except? -1
    cpdef bint add_time(self, int64_t timestamp, int64_t offset) except? -1
    cpdef int64_t last_position_upto(self, int64_t position) except? -1
    cdef int put(self, const uint8_t *entry, Py_ssize_t size) except -1
