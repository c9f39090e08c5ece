"""A process that behaves as a broker's does towards whoever supervises it, and does nothing else.

Told on its command line: `ready`, `dead` (ends at once, with a word), `deaf` (ignores SIGTERM).
"""

import signal
import sys
import time


def main(how: str) -> int:
    if how == "dead":
        print("one\ntwo\nbarnabas: no room on the disk", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, signal.SIG_IGN if how == "deaf" else lambda *_: sys.exit(0))
    print("ready broker=0 listening on 127.0.0.1:1", flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
