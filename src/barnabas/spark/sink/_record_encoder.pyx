# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Columns of rows into the payloads of record batches; the compiled twin of `PureEncoder`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    FEWEST_BYTES = 1024
    RECORD_OVERHEAD = 32
    # The most bytes besides key, value and headers: six varints and the attributes.
    MOST_OVERHEAD = 6 * 10 + 1


cdef class _Growing:
    """The growing batch of one partition."""

    cdef bytearray held
    cdef uint8_t* start
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int64_t count
    cdef int64_t base_timestamp
    cdef int64_t max_timestamp

    def __cinit__(self):
        self.begin()

    cdef void begin(self):
        self.held = bytearray()
        self.start = <uint8_t*>PyByteArray_AS_STRING(self.held)
        self.size = 0
        self.capacity = 0
        self.count = 0

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t needed = self.size + more
        if needed > self.capacity:
            self.capacity = max(needed, 2 * self.capacity, FEWEST_BYTES)
            PyByteArray_Resize(self.held, self.capacity)
            self.start = <uint8_t*>PyByteArray_AS_STRING(self.held)
        return 0

    cdef inline void put_varint(self, int64_t number) noexcept:
        cdef uint64_t zigzag = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
        while zigzag >= 0x80:
            self.start[self.size] = <uint8_t>(zigzag & 0x7F | 0x80)
            self.size += 1
            zigzag >>= 7
        self.start[self.size] = <uint8_t>zigzag
        self.size += 1

    cdef inline void put_bytes(self, const uint8_t* data, int64_t length) noexcept:
        self.put_varint(length)
        if length > 0:
            memcpy(self.start + self.size, data, length)
            self.size += length

    cdef object payload(self, Py_ssize_t partition):
        PyByteArray_Resize(self.held, self.size)
        done = _payload_type()(
            partition, self.count, self.base_timestamp, self.max_timestamp, self.held
        )
        self.begin()
        return done


cdef object _payload_class = None


cdef object _payload_type():
    global _payload_class
    if _payload_class is None:
        from barnabas.spark.sink.record_encoder import Payload

        _payload_class = Payload
    return _payload_class


cdef class _Column:
    """The buffers of one Arrow array: validity bits, then values."""

    cdef object held  # keeps the buffers alive
    cdef const uint8_t* validity
    cdef const uint8_t* values
    cdef const uint8_t* data
    cdef Py_ssize_t offset

    def __cinit__(self, array):
        cdef uint64_t address
        buffers = array.buffers()
        self.held = (array, buffers)
        self.offset = array.offset
        address = buffers[0].address if buffers[0] is not None else 0
        self.validity = <const uint8_t*>address
        address = buffers[1].address if buffers[1] is not None else 0
        self.values = <const uint8_t*>address
        address = buffers[2].address if len(buffers) > 2 and buffers[2] is not None else 0
        self.data = <const uint8_t*>address

    cdef inline bint is_null(self, Py_ssize_t row) noexcept:
        row += self.offset
        return self.validity != NULL and not (self.validity[row >> 3] >> (row & 7)) & 1

    cdef inline int64_t length(self, Py_ssize_t row) noexcept:
        cdef const int32_t* offsets = <const int32_t*>self.values + self.offset + row
        return -1 if self.is_null(row) else offsets[1] - offsets[0]

    cdef inline const uint8_t* at(self, Py_ssize_t row) noexcept:
        return self.data + (<const int32_t*>self.values)[self.offset + row]

    cdef inline int64_t long_at(self, Py_ssize_t row) noexcept:
        return (<const int64_t*>self.values)[self.offset + row]

    cdef inline int32_t int_at(self, Py_ssize_t row) noexcept:
        return (<const int32_t*>self.values)[self.offset + row]


cdef inline int varint_size(int64_t number) noexcept:
    cdef uint64_t zigzag = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
    cdef int size = 1
    while zigzag >= 0x80:
        zigzag >>= 7
        size += 1
    return size


cdef inline int64_t field_size(int64_t length) noexcept:
    return varint_size(length) + (length if length > 0 else 0)


cdef uint32_t murmur2(const uint8_t* key, int64_t length) noexcept:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = 0x9747B28C ^ <uint32_t>length
    cdef uint32_t k
    cdef int64_t position = 0
    while length - position >= 4:
        k = (
            <uint32_t>key[position]
            | <uint32_t>key[position + 1] << 8
            | <uint32_t>key[position + 2] << 16
            | <uint32_t>key[position + 3] << 24
        )
        k *= m
        k ^= k >> 24
        k *= m
        h *= m
        h ^= k
        position += 4
    if position < length:
        k = key[position]
        if position + 1 < length:
            k |= <uint32_t>key[position + 1] << 8
        if position + 2 < length:
            k |= <uint32_t>key[position + 2] << 16
        h ^= k
        h *= m
    h ^= h >> 13
    h *= m
    h ^= h >> 15
    return h & 0x7FFFFFFF


cdef inline int64_t milliseconds(int64_t us) noexcept:
    cdef int64_t ms = us / 1000
    return ms - 1 if us % 1000 < 0 else ms


cdef class RecordEncoder:
    """Encodes the rows of one topic into one growing batch per partition."""

    cdef Py_ssize_t partitions
    cdef Py_ssize_t batch_bytes
    cdef Py_ssize_t sticky
    cdef list growing

    def __init__(self, Py_ssize_t partitions, Py_ssize_t batch_bytes, Py_ssize_t sticky):
        self.partitions = partitions
        self.batch_bytes = batch_bytes
        self.sticky = sticky % partitions
        self.growing = [_Growing() for _ in range(partitions)]

    def append(self, values, keys, timestamps_us, partitions, headers, int64_t now_ms):
        cdef _Column value_column = _Column(values)
        cdef _Column key_column = None if keys is None else _Column(keys)
        cdef _Column time_column = None if timestamps_us is None else _Column(timestamps_us)
        cdef _Column partition_column = None if partitions is None else _Column(partitions)
        cdef _Column header_column = None if headers is None else _Column(headers)
        cdef bint has_keys = keys is not None
        cdef bint has_times = timestamps_us is not None
        cdef bint has_partitions = partitions is not None
        cdef bint has_headers = headers is not None
        cdef Py_ssize_t row, rows = len(values), chosen
        cdef int64_t timestamp, key_length = -1, value_length, header_length, body
        cdef const uint8_t* key = NULL
        cdef _Growing growing
        full = []
        for row in range(rows):
            value_length = value_column.length(row)
            if has_keys:
                key_length = key_column.length(row)
                key = key_column.at(row)
            if has_partitions and not partition_column.is_null(row):
                chosen = partition_column.int_at(row)
                if not 0 <= chosen < self.partitions:
                    self.refuse(chosen)
            elif key_length >= 0:
                chosen = murmur2(key, key_length) % self.partitions
            else:
                chosen = self.sticky
            timestamp = now_ms
            if has_times and not time_column.is_null(row):
                timestamp = milliseconds(time_column.long_at(row))
            header_length = header_column.length(row) if has_headers else -1
            growing = <_Growing>self.growing[chosen]
            if growing.count and growing.size + RECORD_OVERHEAD + (
                (key_length if key_length > 0 else 0)
                + (value_length if value_length > 0 else 0)
                + (header_length if header_length > 0 else 0)
            ) > self.batch_bytes:
                full.append(growing.payload(chosen))
                if chosen == self.sticky:
                    self.sticky = (chosen + 1) % self.partitions
            if growing.count == 0:
                growing.base_timestamp = timestamp
                growing.max_timestamp = timestamp
            elif timestamp > growing.max_timestamp:
                growing.max_timestamp = timestamp
            body = (
                1
                + varint_size(timestamp - growing.base_timestamp)
                + varint_size(growing.count)
                + field_size(key_length)
                + field_size(value_length)
                + (header_length if header_length >= 0 else 1)
            )
            growing.reserve(body + MOST_OVERHEAD)
            growing.put_varint(body)
            growing.start[growing.size] = 0
            growing.size += 1
            growing.put_varint(timestamp - growing.base_timestamp)
            growing.put_varint(growing.count)
            growing.put_bytes(key, key_length)
            growing.put_bytes(value_column.at(row) if value_length > 0 else NULL, value_length)
            if header_length >= 0:
                memcpy(growing.start + growing.size, header_column.at(row), header_length)
                growing.size += header_length
            else:
                growing.start[growing.size] = 0
                growing.size += 1
            growing.count += 1
        return full

    def take(self):
        return [
            (<_Growing>growing).payload(number)
            for number, growing in enumerate(self.growing)
            if (<_Growing>growing).count
        ]

    cdef int refuse(self, Py_ssize_t partition) except -1:
        from barnabas.spark.sink.record_encoder import WrongPartition

        raise WrongPartition(f"{partition}, of {self.partitions}")
