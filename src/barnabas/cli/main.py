"""The `barnabas` script: runs a command line, and reports a failure as one line and exit code.

Typer dispatches all commands, but takes longer to load than a broker takes to open its log.
Plain command lines of `barnabas server` and `barnabas unregister` are therefore parsed here,
without typer.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.cli.exit_codes import FAILED, MISUSED, CommandFailed, Ended, program
from barnabas.cli.run_until import invoked, take_signals
from barnabas.cli.server.server_entry import OPTIONS, plain_options, serve
from barnabas.cli.server.unregister_entry import UNREGISTER_OPTIONS, unregister

# The function and the options of each command that needs no typer.
_PLAIN: Final[Mapping[str, tuple[Callable[..., int], Mapping[str, tuple[str, type]]]]] = {
    "server": (serve, OPTIONS),
    "unregister": (unregister, UNREGISTER_OPTIONS),
}


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; a failure prints one line on stderr."""
    try:
        if arguments and arguments[0] in _PLAIN:
            command, known = _PLAIN[arguments[0]]
            if (options := plain_options(arguments[1:], known)) is not None:
                return invoked(command, **options)
        return invoked(_run_command, arguments)
    except Ended as ended:
        return ended.exit_code
    except UnicodeEncodeError:
        _complain("arguments must be valid UTF-8")
        return MISUSED
    except CommandFailed as failure:
        _complain(str(failure))
        return failure.exit_code
    except ModuleNotFoundError as missing:
        package = (missing.name or "barnabas").partition(".")[0]
        if package == "barnabas":
            raise
        # The console names its own extra.
        _complain(f"{package} is not installed: run pip install 'barnabas[spark]'")
        return FAILED


def _run_command(arguments: Sequence[str]) -> int:
    from barnabas.cli.commands import run as run_command

    return run_command(arguments)


def _complain(message: str) -> None:
    line = " ".join(message.split())
    for hint in ("`barnabas ", "(see barnabas "):
        line = line.replace(hint, hint.replace("barnabas", program()))
    print(f"barnabas: {line}", file=sys.stderr)


def main() -> None:
    """The entry point of the `barnabas` script."""
    take_signals()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
