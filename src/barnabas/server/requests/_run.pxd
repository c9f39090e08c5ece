"""Frames one after another in a buffer, of which several may be served at once."""

from barnabas.wire.produce._plain_batch cimport uint_at
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp


cdef struct Run:
    uint8_t *frames
    Py_ssize_t start      # where the next frame begins, with its size
    Py_ssize_t end
    Py_ssize_t most       # how long a frame may be
    Py_ssize_t known      # how many bytes of a frame tell what serves it
    Py_ssize_t served
    Py_ssize_t last_size
    Py_ssize_t queued     # bytes of answers


cdef enum:
    SEND_AT = 256 * 1024


cdef inline Py_ssize_t length_at(const Run *run, Py_ssize_t start) noexcept:
    """How long the frame is that begins there; 0 unless it is whole and may be served."""
    if run.end - start < 12:
        return 0
    cdef Py_ssize_t length = <int32_t>uint_at(run.frames + start)
    if length < run.known or length > run.most or start + 4 + length > run.end:
        return 0
    return length


cdef inline bint is_alike(const Run *run, Py_ssize_t first, Py_ssize_t other) noexcept:
    """Whether two frames begin with the same bytes, but for their correlation ids."""
    cdef const uint8_t *one = run.frames + first
    cdef const uint8_t *two = run.frames + other
    return not memcmp(one + 4, two + 4, 4) and not memcmp(one + 12, two + 12, run.known - 8)


cdef inline void pass_over(Run *run, Py_ssize_t length) noexcept:
    """Let the frame of that length be served."""
    run.start += 4 + length
    run.last_size = length
    run.served += 1
