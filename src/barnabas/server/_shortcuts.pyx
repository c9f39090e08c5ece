# cython: boundscheck=False, wraparound=False
"""The compiled twins of `shortcuts` and `repeated_produce`."""

import struct

from barnabas.base.errors import BrokerError, DiskFault
from barnabas.replication.leader import Produced
from barnabas.server.delayed_produce import ALL
from barnabas.server.replies import Pending

from barnabas.log._ends cimport LogEnd
from barnabas.server._repeated_fetch cimport RepeatedFetch
from barnabas.server._run cimport SEND_AT, Run, length_at, pass_over
from barnabas.wire._plain cimport Answer, Plain, find_records, is_plain, uint_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef object TO_ALL = ALL


def serve_known(
    view not None,
    Py_ssize_t start,
    Py_ssize_t end,
    Py_ssize_t most,
    dict shortcuts not None,
    Py_ssize_t size,
    list out not None,
    Py_ssize_t queued,
):
    cdef Py_buffer buffer
    cdef Run run
    cdef const uint8_t *at
    cdef PyObject *known
    cdef Py_ssize_t length, served
    cdef int32_t correlation_id
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        if start < 0 or end > buffer.len or size < 8:
            raise ValueError("the frames do not lie in the buffer")
        run = Run(<uint8_t *>buffer.buf, start, end, most, size, 0, 0, queued)
        while run.queued < SEND_AT:
            length = length_at(&run, run.start)
            if not length:
                break
            at = run.frames + run.start
            key = PyBytes_FromStringAndSize(<char *>at + 12, size - 8)
            known = PyDict_GetItem(shortcuts, key)
            if known is NULL:
                break
            api_and_version, shortcut = <tuple>known
            if <int32_t>api_and_version != <int32_t>uint_at(at + 4):
                break
            served = run.served
            if type(shortcut) is RepeatedFetch:
                (<RepeatedFetch>shortcut).serve_run(&run, out)
                if served == run.served:
                    break
                continue
            correlation_id = <int32_t>uint_at(at + 8)
            if type(shortcut) is RepeatedProduce:
                reply = (<RepeatedProduce>shortcut).serve(
                    view, at + 4, run.start + 4, length, correlation_id
                )
            else:
                reply = shortcut(view[run.start + 4 : run.start + 4 + length], correlation_id)
            if reply is None:
                break
            pass_over(&run, length)
            if type(reply) is bytes:
                out.append(reply)
                run.queued += len(<bytes>reply)
            elif type(reply) is list:
                for part in <list>reply:
                    out.append(part)
                    run.queued += len(part)
            else:
                assert isinstance(reply, Pending)
                return run.start, run.served, run.last_size, run.queued, reply
    finally:
        PyBuffer_Release(&buffer)
    return run.start, run.served, run.last_size, run.queued, None


cdef class RepeatedProduce:
    cdef int _version
    cdef tuple _key
    cdef Answer _success
    cdef Py_ssize_t _sized_at
    cdef object _find, _now_ms, _appended, _refuse, _replicated, _acks, _timeout_ms, _topic
    cdef object _partition
    cdef bint _to_all

    def __init__(
        self,
        int version,
        tuple key not None,
        Answer success not None,
        Py_ssize_t sized_at,
        replicas,
        clock,
        appended,
        refuse,
        replicated,
        acks,
        timeout_ms,
    ):
        self._version = version
        self._key = key
        self._topic, self._partition = key
        self._success = success
        self._sized_at = sized_at
        self._find = replicas.find
        self._now_ms = clock.now_ms
        self._appended = appended
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
        leader = self._find(self._topic, self._partition)
        if leader is None or not leader.is_plain:
            return None
        is_sole = leader.is_sole
        if not is_sole and self._to_all and leader.is_under_min_isr:
            return None
        try:
            start = find_records(self._version, frame, size, self._sized_at, &end)
            if not start or not is_plain(frame + start, end - start, leader.largest, &batch):
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
        self._appended(self._key)
        return self._success.response(correlation_id, base_offset, -1, log.log_start_offset)
