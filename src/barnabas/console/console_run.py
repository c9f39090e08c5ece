"""Start and stop of the console: the listening socket, the ready line, uvicorn until a signal."""

import asyncio
import contextlib
import logging
import signal
import socket
from typing import Final

import uvicorn

from barnabas.cli.exit_codes import SIGNALLED, CommandFailed
from barnabas.console.console_app import build_app
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.console_state import ConsoleState
from barnabas.console.web.audit_log import AUDIT

_CONNECTIONS: Final = 400  # so that file descriptors are left for those to brokers


def open_socket(host: str, port: int) -> socket.socket:
    """Raises CommandFailed if the address cannot be bound"""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise CommandFailed(
            f"--listen {host}:{port}: {error.strerror}; choose another port, or 0 for a free one"
        ) from None
    return listener


def run_console(options: ConsoleOptions) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit code."""
    with contextlib.closing(open_socket(options.host, options.port)) as listener:
        return asyncio.run(_serve(options, listener))


class _Server(uvicorn.Server):
    """Uvicorn, whose signals are this module's."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # - uvicorn's own has no types
        yield


def _show_changes() -> None:
    """The audit log of a console without a file for it: lines on stderr."""
    log = logging.getLogger(AUDIT)
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler())


async def _serve(options: ConsoleOptions, listener: socket.socket) -> int:
    state = ConsoleState(options)
    if options.write and options.audit_log is None:
        _show_changes()
    config = uvicorn.Config(
        build_app(state),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=2,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        proxy_headers=False,  # else a header says where a request comes from
    )
    server = _Server(config)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        state.stopping.set()
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    listener.listen(128)
    print(f"ready console of {options.bootstrap} on http://{shown}:{port}/", flush=True)
    await server.serve(sockets=[listener])
    return SIGNALLED + received[0] if received and received[0] == signal.SIGINT else 0
