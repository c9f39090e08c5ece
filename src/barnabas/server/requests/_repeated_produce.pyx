# cython: boundscheck=False, wraparound=False
"""The compiled twin of `repeated_produce`."""

import struct

from barnabas.base.errors import BrokerError, DiskFault
from barnabas.replication.leader.leader_replica import Produced
from barnabas.server.delayed.delayed_produce import ALL

from barnabas.log.segment._active_segment cimport MOST_TOGETHER, Judged, LogEnd, SegmentEnd
from barnabas.server.requests._run cimport Run, is_alike, length_at, pass_over
from barnabas.wire.produce._plain_batch cimport Answer, Plain, find_records, is_plain, uint_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef object TO_ALL = ALL


cdef class RepeatedProduce:
    def __init__(
        self,
        int version,
        tuple key not None,
        Answer success not None,
        Py_ssize_t sized_at,
        replicas,
        clock,
        consumers,
        refuse,
        replicated,
        acks,
        timeout_ms,
    ):
        self._version = version
        self._key = key
        self._success = success
        self._sized_at = sized_at
        self._leader_of = replicas.leader_of
        self._now_ms = clock.now_ms
        self._is_watched = consumers.is_watched
        self._appended = consumers.check_and_complete
        self._refuse = refuse
        self._replicated = replicated
        self._acks = acks
        self._to_all = acks == TO_ALL
        self._timeout_ms = timeout_ms

    def __call__(self, frame not None, int32_t correlation_id):
        cdef Py_buffer buffer
        PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE)
        try:
            return self.serve(frame, <uint8_t *>buffer.buf, 0, buffer.len, correlation_id)
        finally:
            PyBuffer_Release(&buffer)

    cdef bint is_plain(self, leader) except -1:
        cdef LogEnd log = leader.log
        if log.config is not self._plain_config:
            if not leader.is_plain:
                return False
            self._plain_config = log.config
            self._largest = leader.largest
        return True

    cdef int serve_run(self, Run *run, list out) except -1:
        """Serve the next frame, and those behind it for the same partition, with one write.

        None if already the first asks for more than to be appended where nobody follows.
        """
        cdef Judged batches[MOST_TOGETHER]
        cdef LogEnd log
        cdef int64_t base_offset
        cdef int count
        leader = self._leader_of(self._key)
        if leader is None or not self.is_plain(leader) or not leader.is_sole:
            return 0
        log = leader.log
        count = self.collect(run, log._active, self._largest, batches)
        base_offset = log.log_end_offset
        try:
            if count:
                count = log.append_together(batches, count, leader.epoch, self._now_ms())
        except DiskFault as fault:
            answer = self._refuse(
                self._version, <int32_t>uint_at(run.frames + run.start + 8), self._key, fault
            )
            pass_over(run, length_at(run, run.start))
        else:
            if not count:
                return 0
            leader.high_watermark = log.log_end_offset
            if self._is_watched(self._key):
                self._appended(self._key)
            answer = self.answers(run, batches, count, base_offset, log.log_start_offset)
        out.append(answer)
        run.queued += len(<bytes>answer)
        return 0

    cdef int collect(
        self, const Run *run, SegmentEnd active, int64_t largest, Judged *batches
    ) except -1:
        """Judge batches that may be written together; tells how many these are.

        None follows one that gets the last index entry that there is room for.
        """
        cdef Plain batch
        cdef const uint8_t *frame
        cdef Py_ssize_t at = run.start, length, start, end = 0
        cdef int64_t since_entry = active._since_entry
        cdef int64_t room = -1
        cdef int count = 0
        while count < MOST_TOGETHER:
            length = length_at(run, at)
            if not length or not is_alike(run, run.start, at):
                break
            frame = run.frames + at + 4
            try:
                start = find_records(self._version, frame, length, self._sized_at, &end)
            except struct.error:
                break
            if not start or not is_plain(frame + start, end - start, largest, &batch):
                break
            if batch.producer_id >= 0:
                break
            batches[count] = Judged(
                <uint8_t *>frame + start, end - start, batch.length, batch.count, batch.max_timestamp
            )
            at += 4 + length
            count += 1
            if since_entry > active._index_interval:
                room = (active.room() if room < 0 else room) - 1
                if room <= 0:
                    break
                since_entry = 0
            since_entry += end - start
        return count

    cdef bytes answers(
        self, Run *run, const Judged *batches, int count, int64_t offset, int64_t log_start_offset
    ):
        """The answers to the next frames, whose batches lie from `offset` on; they are passed."""
        cdef Py_ssize_t size = len(self._success._whole)
        cdef bytes whole = PyBytes_FromStringAndSize(NULL, count * size)
        cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(whole)
        cdef int number
        for number in range(count):
            self._success.put(
                at, <int32_t>uint_at(run.frames + run.start + 8), offset, -1, log_start_offset
            )
            at += size
            offset += batches[number].count
            pass_over(run, length_at(run, run.start))
        return whole

    cdef serve(
        self,
        view,
        const uint8_t *frame,
        Py_ssize_t frame_at,
        Py_ssize_t size,
        int32_t correlation_id,
    ):
        """The answer to the frame that lies in `view` at `frame_at`."""
        cdef Plain batch
        cdef LogEnd log
        cdef Py_ssize_t start, end = 0
        cdef int64_t base_offset
        leader = self._leader_of(self._key)
        if leader is None or not self.is_plain(leader):
            return None
        is_sole = leader.is_sole
        if not is_sole and self._to_all and leader.is_under_min_isr:
            return None
        try:
            start = find_records(self._version, frame, size, self._sized_at, &end)
            if not start or not is_plain(frame + start, end - start, self._largest, &batch):
                return None
            given = leader.append_judged(
                view[frame_at + start : frame_at + end],
                self._now_ms(),
                batch.length,
                batch.count,
                batch.max_timestamp,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
            )
        except (struct.error, BrokerError):
            return None
        except DiskFault as fault:
            return self._refuse(self._version, correlation_id, self._key, fault)
        if given is None:
            return None
        base_offset = given
        log = leader.log
        if not is_sole:
            produced = Produced(base_offset, -1, log.log_end_offset)
            return self._replicated(
                self._version, correlation_id, leader, produced, self._acks, self._timeout_ms
            )
        if self._is_watched(self._key):
            self._appended(self._key)
        return self._success.response(correlation_id, base_offset, -1, log.log_start_offset)
