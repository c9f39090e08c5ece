cimport cython
from barnabas.base cimport buffers
from barnabas.disk cimport open_file
from barnabas.server.requests.frame_run cimport FrameRun
from libc.stdint cimport int32_t

cdef Py_ssize_t _SEND_AT

@cython.locals(run=FrameRun, at=Py_ssize_t, api_and_version=int32_t)
cpdef tuple serve_known(
    view,
    Py_ssize_t start,
    Py_ssize_t end,
    Py_ssize_t most,
    dict shortcuts,
    Py_ssize_t size,
    list out,
    Py_ssize_t queued,
)
