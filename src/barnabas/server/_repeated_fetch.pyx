# cython: boundscheck=False, wraparound=False
"""The compiled twin of `repeated_fetch`."""

from barnabas.base.errors import BrokerError, DiskFault

from barnabas.log._ends cimport LogEnd
from barnabas.wire._fetch_single cimport SingleAnswer
from barnabas.wire._plain cimport long_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp


cdef class RepeatedFetch:
    cdef object _topic, _partition, _find, _name_of
    cdef SingleAnswer _ready
    cdef int64_t _most, _least, _known_epoch
    cdef bint _read_committed
    cdef Py_ssize_t _offset_at
    cdef bytes _rest

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
        cdef Py_ssize_t rest = len(self._rest)
        cdef const uint8_t *at
        cdef int64_t offset
        PyObject_GetBuffer(frame, &buffer, PyBUF_SIMPLE)
        try:
            if buffer.len != self._offset_at + 8 + rest:
                return None
            at = <uint8_t *>buffer.buf + self._offset_at
            if memcmp(at + 8, PyBytes_AS_STRING(self._rest), rest):
                return None
            offset = long_at(at)
        finally:
            PyBuffer_Release(&buffer)
        return self.answer(offset, correlation_id)

    cpdef answer(self, int64_t offset, int32_t correlation_id):
        cdef LogEnd log
        cdef int64_t high_watermark, stable
        topic = self._topic
        name = topic if type(topic) is str else self._name_of(topic)
        leader = None if name is None else self._find(name, self._partition)
        if leader is None or (self._known_epoch != -1 and self._known_epoch != leader.epoch):
            return None
        log = leader.log
        high_watermark = leader.high_watermark
        stable = leader.last_stable_offset
        try:
            records = log.read_warm(
                offset, self._most, stable if self._read_committed else high_watermark
            )
        except (BrokerError, DiskFault):
            return None
        if records is None or len(records) < self._least:
            return None
        return self._ready.response(
            correlation_id, high_watermark, stable, log.log_start_offset, records
        )
