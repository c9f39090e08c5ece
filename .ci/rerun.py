"""Reruns the tests that failed in the last run, each alone; exits with 0 if all of them pass now.

Such a test is flaky, and a flaky test is a bug: the last lines name each of them. More than a few
failures are no flakiness, and neither is a run that ended before its tests did: both stay red.
"""

import json
import subprocess
import sys
from pathlib import Path

CACHE = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5


def main() -> int:
    failed = list(json.loads(CACHE.read_text())) if CACHE.exists() else []
    if not 0 < len(failed) <= MOST:
        print(f"not rerun: {len(failed)} failures")
        return 1
    still = [name for name in failed if not passes_alone(name)]
    for name in failed:
        print(f"{'failed twice' if name in still else 'flaky'}: {name}")
    return 1 if still else 0


def passes_alone(name: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", name]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
