from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef inline int16_t short_at(const uint8_t *at) noexcept:
    return <int16_t>((at[0] << 8) | at[1])


cdef inline uint32_t uint_at(const uint8_t *at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int64_t long_at(const uint8_t *at) noexcept:
    return <int64_t>((<uint64_t>uint_at(at) << 32) | uint_at(at + 4))


cdef inline void put_int(uint8_t *at, uint32_t value) noexcept:
    at[0] = value >> 24
    at[1] = value >> 16
    at[2] = value >> 8
    at[3] = value


cdef inline void put_long(uint8_t *at, int64_t value) noexcept:
    put_int(at, <uint32_t>(<uint64_t>value >> 32))
    put_int(at + 4, <uint32_t>value)


cdef struct Plain:
    int32_t length
    int32_t count
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence


# Where the records begin in a frame of `size` bytes and, in `end`, where they end; 0 if nowhere.
cdef Py_ssize_t find_records(
    int version, const uint8_t *frame, Py_ssize_t size, Py_ssize_t position, Py_ssize_t *end
) except -1
cdef bint is_plain(const uint8_t *batch, Py_ssize_t size, int64_t largest, Plain *found) except -1


cdef class Answer:
    cdef bytes _whole
    cdef Py_ssize_t _at
    cdef Py_ssize_t _longs
    cdef void put(
        self, uint8_t *at, int32_t correlation_id, int64_t first, int64_t second, int64_t third
    ) noexcept
    cpdef bytes response(self, int32_t correlation_id, int64_t first, int64_t second, int64_t third)
