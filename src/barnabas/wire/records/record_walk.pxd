cimport cython
from barnabas.base cimport buffers
from libc.stdint cimport int64_t, uint8_t

cdef int64_t _LENGTH, _NUMBER, _TIMESTAMP, _OFFSET, _FIELD, _REST, _LEFT, _TEXT
cdef int64_t _NO_TEXT
cdef int64_t _USUAL_HEAD, _USUAL_DELTA, _MOST_USUAL, _FAR_FROM_LIMITS
cdef int64_t _MOST_REFUSED, _NO_TIMESTAMP, _MIN_LONG, _MAX_LONG, _INT, _LONG, _SMALLEST_BODY


@cython.locals(
    size=int64_t, data="const uint8_t *", position=int64_t, previous=int64_t, greatest=int64_t,
    index=int64_t, length=int64_t, record_end=int64_t, delta=int64_t, timestamp=int64_t,
    key_length=int64_t, header_count=int64_t, may_be_usual=bint, most_usual=int64_t, after=int64_t,
)
cpdef (int64_t, int64_t, int64_t) walk_records(
    view,
    Py_ssize_t start,
    Py_ssize_t end,
    int64_t count,
    int64_t last_delta,
    int64_t base_timestamp,
    bint needs_key=*,
    int64_t earliest=*,
    int64_t latest=*,
    list refused=*,
)
@cython.locals(
    greatest=int64_t, length=int64_t, at=int64_t, byte=int64_t, record_end=int64_t, delta=int64_t,
    offset=int64_t,
)
cdef (int64_t, int64_t, int64_t) _usual_records(
    const uint8_t *data, int64_t position, int64_t end, int64_t index, int64_t most
) noexcept
@cython.locals(length=int64_t)
cdef int64_t _after_headers(
    const uint8_t *data, int64_t position, int64_t end, int64_t count
) noexcept
@cython.locals(byte=int64_t, after=int64_t, least=int64_t, most=int64_t)
cdef bint _is_utf8(const uint8_t *data, int64_t position, int64_t end) noexcept
