cimport cython
from barnabas.base cimport buffers
from libc.stdint cimport int64_t

cdef int64_t _MOST_WALKED, _HEADER_SIZE, _LOG_OVERHEAD, _LAST_OFFSET_DELTA

@cython.locals(
    end=int64_t, position=int64_t, next_offset=int64_t, length=int64_t, after=int64_t,
    last_offset=int64_t,
)
cpdef (int64_t, int64_t) whole_batches(data, int64_t upto)
