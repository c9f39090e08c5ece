# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Records of batches into the buffers of Arrow columns; the compiled twin of `PureColumns`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    FEWEST_BYTES = 64 * 1024


cdef class _Buffer:
    """A growing buffer of which `size` bytes are written."""

    cdef bytearray held
    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __cinit__(self):
        self.held = bytearray()
        self.size = 0
        self.capacity = 0
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.held)

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t needed = self.size + more
        if needed > self.capacity:
            self.capacity = max(needed, 2 * self.capacity, FEWEST_BYTES)
            PyByteArray_Resize(self.held, self.capacity)
            self.start = <uint8_t*>PyByteArray_AS_STRING(self.held)
        return 0

    cdef take(self):
        taken = memoryview(self.held)[: self.size]
        self.held = bytearray()
        self.size = 0
        self.capacity = 0
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.held)
        return taken

    cdef inline void put_int(self, int32_t number) noexcept:
        (<int32_t*>(self.start + self.size))[0] = number
        self.size += 4

    cdef inline void put_long(self, int64_t number) noexcept:
        (<int64_t*>(self.start + self.size))[0] = number
        self.size += 8


cdef class _Bytes:
    """A column of nullable binary values: Arrow's offsets, data and validity."""

    cdef _Buffer offsets
    cdef _Buffer data
    cdef _Buffer validity
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls

    def __cinit__(self):
        self.offsets = _Buffer()
        self.data = _Buffer()
        self.validity = _Buffer()
        self.begin()

    cdef int begin(self) except -1:
        self.rows = 0
        self.nulls = 0
        self.offsets.reserve(4)
        self.offsets.put_int(0)
        return 0

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t bytes) except -1:
        self.offsets.reserve(4 * rows)
        if self.data.size + bytes > INT32_MAX:
            raise ValueError("more than 2 GiB in one column")
        self.data.reserve(bytes)
        return 0

    cdef inline int put(self, const uint8_t* source, Py_ssize_t length) except -1:
        """Append `length` bytes, or null if it is negative."""
        if length < 0:
            self._put_null()
            return 0
        if self.nulls:
            self._mark(1)
        if length:
            memcpy(self.data.start + self.data.size, source, length)
            self.data.size += length
        self.offsets.put_int(<int32_t>self.data.size)
        self.rows += 1
        return 0

    cdef int _put_null(self) except -1:
        cdef Py_ssize_t before
        if not self.nulls:  # all rows so far are valid
            before = self.rows // 8 + 1
            self.validity.reserve(before)
            memset(self.validity.start, 0xFF, before)
            self.validity.size = before
        self._mark(0)
        self.nulls += 1
        self.offsets.put_int(<int32_t>self.data.size)
        self.rows += 1
        return 0

    cdef inline int _mark(self, int valid) except -1:
        cdef Py_ssize_t byte = self.rows >> 3
        if byte >= self.validity.size:
            self.validity.reserve(1)
            self.validity.start[byte] = 0
            self.validity.size = byte + 1
        if valid:
            self.validity.start[byte] |= <uint8_t>(1 << (self.rows & 7))
        else:
            self.validity.start[byte] &= <uint8_t>(~(1 << (self.rows & 7)))
        return 0

    cdef take(self):
        nulls = self.nulls
        validity = self.validity.take()
        taken = (self.offsets.take(), self.data.take(), validity if nulls else None, nulls)
        self.begin()
        return taken


cdef class Columns:
    """The buffers of the wanted records, column by column."""

    cdef int64_t _start, _end, _earliest, _latest
    cdef bint _with_headers
    cdef Py_ssize_t _rows
    cdef _Buffer _offsets, _timestamps, _types
    cdef _Bytes _keys, _values
    cdef _Bytes _lists  # only its offsets and validity: the headers of each record
    cdef _Bytes _header_keys, _header_values

    def __cinit__(self, int64_t start, int64_t end, int64_t earliest, int64_t latest, bint headers):
        self._start, self._end = start, end
        self._earliest, self._latest = earliest, latest
        self._with_headers = headers
        self._rows = 0
        self._offsets, self._timestamps, self._types = _Buffer(), _Buffer(), _Buffer()
        self._keys, self._values = _Bytes(), _Bytes()
        self._lists, self._header_keys, self._header_values = _Bytes(), _Bytes(), _Bytes()

    @property
    def rows(self):
        return self._rows

    @property
    def size(self):
        return self._keys.data.size + self._values.data.size + 24 * self._rows

    def append(
        self,
        const uint8_t[:] payload,
        int64_t base_offset,
        int64_t base_timestamp,
        bint log_append_time,
        int count,
    ):
        cdef Py_ssize_t length = payload.shape[0]
        cdef Py_ssize_t rows = min(count, length // 6)  # no record is shorter
        self._offsets.reserve(8 * rows)
        self._timestamps.reserve(8 * rows)
        self._types.reserve(4 * rows)
        self._keys.reserve(rows, length)
        self._values.reserve(rows, length)
        if self._with_headers:
            self._lists.reserve(rows, 0)
            self._header_keys.reserve(length // 2, length)
            self._header_values.reserve(length // 2, length)
        if count:
            if not length:
                raise ValueError("the batch ends within record 0")
            self._append(&payload[0], length, base_offset, base_timestamp, log_append_time, count)

    cdef int _append(
        self,
        const uint8_t* data,
        Py_ssize_t length,
        int64_t base_offset,
        int64_t base_timestamp,
        bint log_append_time,
        int count,
    ) except -1:
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t end
        cdef int64_t size, timestamp, offset, key_length, value_length
        cdef Py_ssize_t key_start
        cdef int record
        for record in range(count):
            size = _varint(data, length, &position)
            if size < 6 or size > length - position:
                raise ValueError(f"the batch ends within record {record}")
            end = position + size
            position += 1  # attributes
            timestamp = _varint(data, end, &position)
            offset = base_offset + _varint(data, end, &position)
            if offset < self._start or offset >= self._end:
                position = end
                continue
            timestamp = base_timestamp if log_append_time else base_timestamp + timestamp
            if timestamp < self._earliest or timestamp > self._latest:
                position = end
                continue
            if timestamp > INT64_MAX // 1000 or timestamp < INT64_MIN // 1000:
                raise ValueError(f"record {record} has a timestamp of {timestamp}")
            key_length = _varint(data, end, &position)
            if key_length > end - position:
                raise ValueError(f"record {record} has a key of {key_length} bytes")
            key_start = position
            if key_length > 0:
                position += key_length
            value_length = _varint(data, end, &position)
            if value_length > end - position:
                raise ValueError(f"record {record} has a value of {value_length} bytes")
            self._keys.put(data + key_start, key_length)
            self._values.put(data + position, value_length)
            if value_length > 0:
                position += value_length
            self._offsets.put_long(offset)
            self._timestamps.put_long(timestamp * 1000)
            self._types.put_int(log_append_time)
            if self._with_headers:
                self._append_headers(data, end, position)
            self._rows += 1
            position = end
        if position != length:
            raise ValueError(f"{length - position} bytes are left after the last record")
        return 0

    cdef int _append_headers(
        self, const uint8_t* data, Py_ssize_t end, Py_ssize_t position
    ) except -1:
        cdef int64_t count = _varint(data, end, &position)
        cdef int64_t header, size
        if count < 0 or count > (end - position) // 2:
            raise ValueError(f"a record has {count} headers")
        for header in range(count):
            size = _varint(data, end, &position)
            if size < 0 or size > end - position:
                raise ValueError(f"a header has a key of {size} bytes")
            self._header_keys.put(data + position, size)
            position += size
            size = _varint(data, end, &position)
            if size > end - position:
                raise ValueError(f"a header has a value of {size} bytes")
            self._header_values.put(data + position, size)
            if size > 0:
                position += size
        # As in Spark's Kafka source, a record without headers has null, not an empty array.
        self._lists.data.size = self._header_keys.rows
        self._lists.put(data, 0 if count else -1)
        return 0

    def take(self):
        headers = None
        if self._with_headers:
            self._lists.data.size = 0
            lists = self._lists.take()
            headers = (
                (lists[0], lists[2], lists[3]),
                self._header_keys.rows,
                self._header_keys.take(),
                self._header_values.take(),
            )
        rows, self._rows = self._rows, 0
        return (
            rows,
            self._offsets.take(),
            self._timestamps.take(),
            self._types.take(),
            self._keys.take(),
            self._values.take(),
            headers,
        )


cdef inline int64_t _varint(const uint8_t* data, Py_ssize_t end, Py_ssize_t* position) except? -7:
    cdef Py_ssize_t at = position[0]
    cdef uint64_t value, byte
    cdef int shift = 7
    if at >= end:
        raise ValueError("a number reaches past the end")
    value = data[at]
    at += 1
    if value >= 0x80:
        value &= 0x7F
        while True:
            if at >= end:
                raise ValueError("a number reaches past the end")
            if shift > 63:
                raise ValueError("a number of more than 10 bytes")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
    position[0] = at
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
