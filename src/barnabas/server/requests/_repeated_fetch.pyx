# cython: boundscheck=False, wraparound=False
"""The compiled twin of `repeated_fetch`."""

from barnabas.base.errors import BrokerError, DiskFault

from barnabas.disk._open_file cimport look_anew
from barnabas.log.segment._active_segment cimport LogEnd
from barnabas.server.requests._run cimport SEND_AT, Run, is_alike, length_at, pass_over
from barnabas.wire.fetch._single_fetch cimport SingleAnswer
from barnabas.wire.produce._plain_batch cimport long_at, uint_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp


cdef class RepeatedFetch:
    def __init__(self, single, SingleAnswer ready not None, frame, find, name_of, max_bytes):
        self._topic = single.topic
        self._partition = single.partition
        self._most = min(single.partition_max_bytes, single.max_bytes, max_bytes)
        self._least = max(1, single.min_bytes)
        self._known_epoch = single.current_leader_epoch
        self._read_committed = single.read_committed
        self._ready = ready
        self._find = find
        self._name_of = name_of
        self._offset_at = single.offset_at
        self._rest = bytes(frame[self._offset_at + 8 :])

    def __call__(self, frame not None, int32_t correlation_id):
        cdef Py_buffer buffer
        cdef int64_t offset
        PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE)
        try:
            if not self.is_as_usual(<uint8_t *>buffer.buf, buffer.len):
                return None
            offset = long_at(<uint8_t *>buffer.buf + self._offset_at)
        finally:
            PyBuffer_Release(&buffer)
        return self.answer(offset, correlation_id)

    cpdef answer(self, int64_t offset, int32_t correlation_id):
        cdef LogEnd log
        cdef int64_t high_watermark, stable
        look_anew()
        leader = self.leader()
        if leader is None:
            return None
        log, high_watermark, stable = leader.log, leader.high_watermark, leader.last_stable_offset
        records = self.records(log, offset, stable if self._read_committed else high_watermark)
        if records is None:
            return None
        return self._ready.response(
            correlation_id, high_watermark, stable, log.log_start_offset, records
        )

    cdef int serve_run(self, Run *run, list out) except -1:
        """Serve the next frame, and those behind it that ask for the same partition.

        Nothing happens to the partition in between, so it is looked up once.
        """
        cdef LogEnd log
        cdef int64_t high_watermark, stable, upto
        cdef Py_ssize_t first = run.start, length = length_at(run, first), size
        cdef const uint8_t *frame
        leader = self.leader()
        if leader is None:
            return 0
        log, high_watermark, stable = leader.log, leader.high_watermark, leader.last_stable_offset
        upto = stable if self._read_committed else high_watermark
        while length and is_alike(run, first, run.start) and run.queued < SEND_AT:
            frame = run.frames + run.start + 4
            if not self.is_as_usual(frame, length):
                break
            records = self.records(log, long_at(frame + self._offset_at), upto)
            if records is None:
                break
            size = len(records)
            run.queued += size + self._ready.add(
                out,
                <int32_t>uint_at(frame + 4),
                high_watermark,
                stable,
                log.log_start_offset,
                records,
                size,
            )
            pass_over(run, length)
            length = length_at(run, run.start)
        return 0

    cdef bint is_as_usual(self, const uint8_t *frame, Py_ssize_t length) noexcept:
        cdef Py_ssize_t rest = len(self._rest)
        if length != self._offset_at + 8 + rest:
            return False
        return not memcmp(frame + self._offset_at + 8, PyBytes_AS_STRING(self._rest), rest)

    cdef leader(self):
        """Who leads the partition, if that is who the client takes for its leader."""
        topic = self._topic
        name = topic if type(topic) is str else self._name_of(topic)
        leader = None if name is None else self._find(name, self._partition)
        if leader is not None and type(topic) is not str:
            topic_id = leader.topic_id
            if topic_id is not None and topic_id != topic:
                return None
        if leader is None or self._known_epoch == -1 or self._known_epoch == leader.epoch:
            return leader
        return None

    cdef records(self, LogEnd log, int64_t offset, int64_t upto):
        """What to answer, if there is enough of it at hand."""
        try:
            records = log.read_warm(offset, self._most, upto)
        except (BrokerError, DiskFault):
            return None
        return None if records is None or len(records) < self._least else records
