cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "Python.h":
    Py_buffer *PyMemoryView_GET_BUFFER(object view)
    bint PyMemoryView_Check(object view)


@cython.no_gc
cdef class BufferSlice:
    cdef public object view
    cdef public Py_ssize_t at, size


cdef int refuse(view, Py_ssize_t at, Py_ssize_t size) except -1
cdef int refuse_readonly() except -1
cdef int refuse_int(int64_t value) except -1


cdef inline uint8_t *memory(view, Py_ssize_t at, Py_ssize_t size) except NULL:
    cdef Py_buffer *buffer
    if not PyMemoryView_Check(view):
        refuse(view, at, size)
    buffer = PyMemoryView_GET_BUFFER(view)
    if at < 0 or size < 0 or at + size > buffer.len:
        refuse(view, at, size)
    return <uint8_t *>buffer.buf + at


cdef inline uint8_t *writable(view, Py_ssize_t at, Py_ssize_t size) except NULL:
    cdef uint8_t *found = memory(view, at, size)
    if PyMemoryView_GET_BUFFER(view).readonly:
        refuse_readonly()
    return found


cdef inline uint32_t load_int(const uint8_t *at) noexcept:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline void store_int(uint8_t *at, uint32_t value) noexcept:
    at[0] = value >> 24
    at[1] = value >> 16
    at[2] = value >> 8
    at[3] = value


cdef inline void store_long(uint8_t *at, int64_t value) noexcept:
    store_int(at, <uint32_t>(<uint64_t>value >> 32))
    store_int(at + 4, <uint32_t>value)


cdef inline int byte_at(view, Py_ssize_t at) except -1:
    return memory(view, at, 1)[0]


cdef inline int16_t short_at(view, Py_ssize_t at) except? -1:
    cdef const uint8_t *found = memory(view, at, 2)
    return <int16_t>((found[0] << 8) | found[1])


cdef inline int32_t int_at(view, Py_ssize_t at) except? -1:
    return <int32_t>load_int(memory(view, at, 4))


cdef inline uint32_t uint_at(view, Py_ssize_t at) except? 1:
    return load_int(memory(view, at, 4))


cdef inline int64_t long_at(view, Py_ssize_t at) except? -1:
    cdef const uint8_t *found = memory(view, at, 8)
    return <int64_t>((<uint64_t>load_int(found) << 32) | load_int(found + 4))


cdef inline int put_int(view, Py_ssize_t at, int64_t value) except -1:
    if not -2147483648 <= value <= 2147483647:
        refuse_int(value)
    store_int(writable(view, at, 4), <uint32_t>value)
    return 0


cdef inline int put_long(view, Py_ssize_t at, int64_t value) except -1:
    store_long(writable(view, at, 8), value)
    return 0


cdef (int64_t, int64_t) long_varint_at(
    const uint8_t *memory, int64_t position, int64_t end, int64_t bits
) noexcept


cdef inline (int64_t, int64_t) varint_at(
    const uint8_t *memory, int64_t position, int64_t end, int64_t bits
) noexcept:
    cdef uint64_t byte
    if position < end:
        byte = memory[position]
        if byte < 0x80:
            return <int64_t>((byte >> 1) ^ (0 - (byte & 1))), position + 1
        if position + 1 < end and memory[position + 1] < 0x80:
            byte = (byte & 0x7F) | (<uint64_t>memory[position + 1] << 7)
            return <int64_t>((byte >> 1) ^ (0 - (byte & 1))), position + 2
    return long_varint_at(memory, position, end, bits)


cpdef bytes bytes_at(view, Py_ssize_t start, Py_ssize_t end)
cpdef bint are_equal(view, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size) except -1
cpdef bint is_at(view, Py_ssize_t start, Py_ssize_t end, bytes expected) except -1
cpdef uint32_t crc_of(view, Py_ssize_t start, Py_ssize_t end) except? 1
cpdef bytes uvarint(uint32_t value)
cpdef bytes filled(
    bytes template,
    Py_ssize_t size,
    int32_t correlation_id,
    Py_ssize_t at,
    Py_ssize_t longs,
    int64_t first,
    int64_t second,
    int64_t third,
    bytes end,
)
