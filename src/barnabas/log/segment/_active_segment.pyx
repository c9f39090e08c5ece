# cython: boundscheck=False, wraparound=False
"""The compiled twin of `ends`."""

from barnabas.base.errors import BrokerError, DiskFault, ErrorCode

from barnabas.disk._open_file cimport OpenFile, iovec
from barnabas.wire.produce._plain_batch cimport put_int, put_long
from barnabas.wire.records._batch_walk cimport walk
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    STAMPED = 16  # base offset, batch length, leader epoch

cdef enum:
    MAX_CURSORS = 64

cdef int64_t MAX_RELATIVE = 2**31 - 1


cdef class SegmentEnd:
    def __init__(
        self, int64_t base_offset, int64_t index_interval, int64_t now_ms, int64_t jitter_ms
    ):
        self.base_offset = self.end_offset = self.max_timestamp_offset = base_offset
        self.max_timestamp = -1
        self.created_ms = now_ms
        self.jitter_ms = jitter_ms
        self._index_interval = index_interval
        self._cursors = {}

    cpdef bint should_roll(
        self, int64_t size, int64_t last_offset, int64_t max_timestamp, int64_t now_ms, config
    ) except -1:
        cdef int64_t first, waited_ms
        if not self.size:
            return last_offset - self.base_offset > MAX_RELATIVE
        if (
            self.is_full
            or last_offset - self.base_offset > MAX_RELATIVE
            or self.size + size > <int64_t>config.segment_bytes
        ):
            return True
        first = self.first_timestamp if self._first_timestamp is None else self._first_timestamp
        if first < 0:
            waited_ms = now_ms - self.created_ms
        else:
            # An earlier time waits for nothing; without this the difference might not fit.
            waited_ms = max_timestamp - first if max_timestamp > first else -1
        return waited_ms > <int64_t>config.segment_ms - self.jitter_ms

    cpdef append(self, batch, int64_t last_offset, int64_t max_timestamp):
        file = self.file if self._file is None else self._file
        if isinstance(file, OpenFile):
            (<OpenFile>file).write(batch)
        else:
            file.append(batch)
        self.note(len(batch), last_offset, max_timestamp)

    cpdef note(self, int64_t size, int64_t last_offset, int64_t max_timestamp):
        cdef int64_t position = self.size
        if not position:
            self._first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = last_offset
        if self._since_entry > self._index_interval:
            self._add_index_entries(last_offset, position)
        self._since_entry += size
        self.size = position + size
        self.end_offset = last_offset + 1
        self.is_dirty = True

    cdef int64_t room(self):
        """How many batches can get index entries until the segment is full."""
        return min(
            self.offset_index.max_entries - self.offset_index.entries,
            self.time_index.max_entries - 1 - self.time_index.entries,
        )

    cpdef _add_index_entries(self, int64_t last_offset, int64_t position):
        cdef bint is_full = self.offset_index.add_offset(last_offset, position)
        is_full |= self.time_index.add_time(self.max_timestamp, self.max_timestamp_offset)
        self.is_full = is_full
        self.is_index_dirty = True
        self._since_entry = 0

    cdef int fitting(
        self, const Judged *batches, int count, int64_t offset, int64_t now_ms, config
    ) except -1:
        """How many of these batches, from the first on, belong here whatever becomes of others."""
        cdef int64_t size = 0
        cdef int number
        for number in range(count):
            size += batches[number].size
            offset += batches[number].count
            if self.should_roll(size, offset - 1, batches[number].max_timestamp, now_ms, config):
                return number
            if not self.size:
                return 1  # its time decides about those behind it
        return count

    cpdef read_on(self, int64_t offset, int64_t max_bytes, int64_t upto):
        cdef int64_t start, left, next_offset = 0
        cdef Py_ssize_t size = 0
        remembered = self._cursors.get(offset)
        if remembered is None or max_bytes <= 0:
            return None
        start = remembered
        left = self.size - start
        if left <= 0:
            return None
        file = self.file if self._file is None else self._file
        if isinstance(file, OpenFile):
            data = (<OpenFile>file).warm_at(start, min(left, max_bytes))
        else:
            data = file.warm(start, min(left, max_bytes))
        if data is None:
            return None
        if left <= max_bytes and upto >= self.end_offset:
            self._remember(self.end_offset, self.size)
            return data
        if not walk(data, upto, &size, &next_offset) or not size:
            return None
        self._remember(next_offset, start + size)
        return data if size == len(data) else data[:size]

    cpdef _remember(self, int64_t offset, int64_t position):
        self._cursors[offset] = position
        if len(self._cursors) > MAX_CURSORS:
            del self._cursors[next(iter(self._cursors))]


cdef class LogEnd:
    def __init__(self, folder, config, SegmentEnd active, int64_t epoch, int64_t log_start_offset):
        self.folder = folder
        self.config = config
        self.log_start_offset = log_start_offset
        self.log_end_offset = active.end_offset
        self._active = active
        self._epoch = epoch

    cpdef int64_t append_unsequenced(
        self,
        batch,
        int64_t batch_length,
        int64_t count,
        int64_t max_timestamp,
        int64_t epoch,
        int64_t now_ms,
    ) except? -1:
        cdef int64_t base_offset = self.log_end_offset
        cdef int64_t last_offset = base_offset + count - 1
        cdef SegmentEnd active
        if epoch < self._epoch:
            raise BrokerError(
                ErrorCode.fenced_leader_epoch, f"{self.folder} is in leader epoch {self._epoch}"
            )
        if self.failure is not None:
            raise self.failure
        if self.is_unsettled:
            self._settle_now()
        stamp(batch, base_offset, batch_length, epoch)
        try:
            active = self._active
            if active.should_roll(len(batch), last_offset, max_timestamp, now_ms, self.config):
                self.roll(now_ms)
                active = self._active
            active.append(batch, last_offset, max_timestamp)
            if epoch != self._epoch:
                self._begin_epoch(epoch, base_offset)
        except DiskFault as fault:
            self.failure = fault
            raise
        self.log_end_offset = last_offset + 1
        return base_offset

    cdef int append_together(
        self, Judged *batches, int count, int64_t epoch, int64_t now_ms
    ) except -1:
        """Append as many of these batches as can be written at once, in order; tells how many.

        0 if already the first needs more than that, as a new segment. After a DiskFault they are
        as they came, but for their leader epochs.
        """
        cdef iovec parts[MOST_TOGETHER]
        cdef SegmentEnd active = self._active
        cdef int64_t offset = self.log_end_offset
        cdef Py_ssize_t size = 0
        cdef int number
        if epoch != self._epoch or self.failure is not None or self.is_unsettled:
            return 0
        if not isinstance(active._file, OpenFile):
            return 0
        count = active.fitting(batches, min(count, MOST_TOGETHER), offset, now_ms, self.config)
        for number in range(count):
            put_stamp(batches[number].at, offset, batches[number].length, epoch)
            parts[number].iov_base, parts[number].iov_len = batches[number].at, batches[number].size
            size += batches[number].size
            offset += batches[number].count
        try:
            if count:
                (<OpenFile>active._file).write_parts(parts, count, size)
            for number in range(count):
                offset = self.log_end_offset + batches[number].count
                active.note(batches[number].size, offset - 1, batches[number].max_timestamp)
                self.log_end_offset = offset
        except DiskFault as fault:
            self.failure = fault
            for number in range(count):
                put_long(batches[number].at, 0)
            raise
        return count

    cpdef read_warm(self, int64_t offset, int64_t max_bytes, int64_t upto):
        cdef SegmentEnd active = self._active
        if self.log_start_offset <= offset < min(upto, self.log_end_offset):
            if offset >= active.base_offset:
                data = active.read_on(offset, max_bytes, upto)
            else:
                data = self._segment_of(offset).read_on(offset, max_bytes, upto)
            if data is not None:
                return data
        return self.locate(offset, max_bytes, upto, minimum_one=True).warm()


cdef int stamp(batch, int64_t base_offset, int64_t batch_length, int64_t epoch) except -1:
    cdef Py_buffer buffer
    PyObject_GetBuffer(batch, &buffer, PyBUF_WRITABLE)
    try:
        if buffer.len < STAMPED:
            raise ValueError(f"a batch of {buffer.len} bytes has no head to stamp")
        put_stamp(<uint8_t *>buffer.buf, base_offset, batch_length, epoch)
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef inline void put_stamp(
    uint8_t *batch, int64_t base_offset, int64_t batch_length, int64_t epoch
) noexcept:
    put_long(batch, base_offset)
    put_int(batch + 8, <uint32_t>batch_length)
    put_int(batch + 12, <uint32_t>epoch)
