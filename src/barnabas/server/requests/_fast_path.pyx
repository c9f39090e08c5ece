# cython: boundscheck=False, wraparound=False
"""The compiled twin of `shortcuts`."""

from barnabas.server.requests.replies import Pending

from barnabas.disk._open_file cimport look_anew
from barnabas.server.requests._repeated_fetch cimport RepeatedFetch
from barnabas.server.requests._repeated_produce cimport RepeatedProduce
from barnabas.server.requests._run cimport SEND_AT, Run, length_at, pass_over
from barnabas.wire.produce._plain_batch cimport uint_at
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, uint8_t

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
    look_anew()
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
            correlation_id = <int32_t>uint_at(at + 8)
            if type(shortcut) is RepeatedFetch:
                (<RepeatedFetch>shortcut).serve_run(&run, out)
                if run.served > served:
                    continue
                break
            if type(shortcut) is RepeatedProduce:
                if not buffer.readonly:
                    (<RepeatedProduce>shortcut).serve_run(&run, out)
                if run.served > served:
                    continue
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
