"""A query's name, from the first task that knows it to the reader on the driver that does not.

Spark gives a query's name to its tasks (in the description of their job) and not to the reader,
which wants it for the name of its group. So the reader opens a port until it has heard the name,
its address travels to the task with what that shall read, and the task sends one line. If the
task cannot reach the port, nothing else suffers.
"""

import contextlib
import re
import socket
from typing import Final, NamedTuple

from barnabas.base.randomness import Random

_PREFIX: Final = "spark-"
_CONNECT_S: Final = 2.0
_MOST_BYTES: Final = 4096
_ID: Final = re.compile(r"^id = (\S+)$", re.MULTILINE)


class Ear(NamedTuple):
    """Where the driver listens; `token` shows that a line comes from its own query."""

    host: str
    port: int
    token: str


class Listener:
    """The driver's side: open until the group's name is known."""

    def __init__(self, host: str, random: Random) -> None:
        """`host` is this machine's address as the brokers' network sees it."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family)
        self._socket.setblocking(False)
        self.ear = Ear(host, self._socket.getsockname()[1], str(random.uuid()))

    def heard(self) -> str | None:
        """The group's name, if a task has told it by now; does not wait."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                with connection:
                    connection.settimeout(_CONNECT_S)
                    text = connection.makefile("rb").read(_MOST_BYTES).decode("utf-8", "replace")
                token, _, group = text.partition(" ")
                if token == self.ear.token and group:
                    return group
        return None

    def close(self) -> None:
        self._socket.close()


def tell(ear: Ear) -> None:
    """A task's side: say what the group of its query is called, if it can be said."""
    group = group_of(_job_description())
    if group is not None:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(ear[:2], _CONNECT_S) as connection,
        ):
            connection.sendall(f"{ear.token} {group}".encode())


def group_of(description: str | None) -> str | None:
    """The group by the description that Spark gives the jobs of a streaming query.

    Its first line is the query's name, empty if it has none; another one says `id = ...`.
    """
    found = _ID.search(description or "")
    if description is None or found is None:
        return None
    name = description.partition("\n")[0].strip()
    return _PREFIX + (name or found[1])


def _job_description() -> str | None:
    from pyspark import TaskContext

    task = TaskContext.get()
    return None if task is None else task.getLocalProperty("spark.job.description")
