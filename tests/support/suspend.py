"""A process that stands still for certain."""

import os
import signal


def suspend(pid: int) -> None:
    """SIGSTOP to a child of this process; return when all of it stands still."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
