"""The `barnabas` script: runs a command line, and turns what goes wrong into a line and a code.

A broker shall be ready soon: what starts one is read here if it is plain, without typer, which
finds all other commands and takes longer to load than a broker to open its log.
"""

import sys
from collections.abc import Sequence

from barnabas.cli.exit_codes import MISUSED, CommandFailed, Ended
from barnabas.cli.run_until import invoked, take_signals
from barnabas.cli.server.plain_options import plain_options
from barnabas.cli.server.server_entry import serve


def run(arguments: Sequence[str]) -> int:
    """Run one command line and tell its exit code; whatever fails is one line on stderr."""
    try:
        options = plain_options(arguments[1:]) if arguments[:1] == ["server"] else None
        if options is not None:
            return invoked(serve, **options)
        return invoked(_run_command, arguments)
    except Ended as ended:
        return ended.exit_code
    except UnicodeEncodeError:
        _complain("an argument is not UTF-8 text, which names in Kafka must be")
        return MISUSED
    except CommandFailed as failure:
        _complain(str(failure))
        return failure.exit_code


def _run_command(arguments: Sequence[str]) -> int:
    from barnabas.cli.commands import run as run_command

    return run_command(arguments)


def _complain(message: str) -> None:
    print(f"barnabas: {' '.join(message.split())}", file=sys.stderr)


def main() -> None:
    """The entry point of the `barnabas` script."""
    take_signals()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
