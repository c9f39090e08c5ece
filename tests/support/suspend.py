"""Reliable suspension of a process."""

import os
import signal


def suspend(pid: int) -> None:
    """Send SIGSTOP to a child process; return when all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
