"""Runs all long tests: first those that share the machine, spread over processes, then the others.

The second part is the tests with the mark `alone`, one after the other. Both parts run whatever
fails. A test that failed runs once more, by itself, as in CI. The last lines count all tests and
say what was skipped, and why. Arguments go to the first part: how to spread it.
"""

import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import rerun

PARTS = {"together": "long and not alone", "alone": "long and alone"}
REPORTS = Path("build/long")
FAILED, NO_TESTS = 1, 5  # exit codes of pytest
# As pytest's reports name them; a test that passed has none of these.
OUTCOMES = ("failure", "error", "skipped")


def main(spread: list[str]) -> int:
    began = time.monotonic()
    rerun.CACHE.unlink(missing_ok=True)  # else it names what failed in earlier runs
    REPORTS.mkdir(parents=True, exist_ok=True)
    codes = {part: run(part, spread if part == "together" else []) for part in PARTS}
    is_red = any(code == FAILED for code in codes.values()) and rerun.main() != 0
    counts, skipped = Counter[str](), Counter[str]()
    for case in cases():
        outcome = next((each for each in OUTCOMES if case.find(each) is not None), "passed")
        counts[outcome] += 1
        if (found := case.find("skipped")) is not None:
            skipped[found.get("message", "")] += 1
    for reason, count in sorted(skipped.items()):
        print(f"skipped {count}: {reason}")
    for part, code in codes.items():
        if code not in (0, FAILED, NO_TESTS) or not report(part).exists():
            print(f"the part `{part}` ended before its tests did: exit code {code}")
            is_red = True
    counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    print(f"long tests: {counted or 'none'} in {(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if is_red else 0


def report(part: str) -> Path:
    return REPORTS / f"{part}.xml"


def run(part: str, spread: list[str]) -> int:
    report(part).unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", *spread, "-m", PARTS[part]]
    return subprocess.run([*command, f"--junitxml={report(part)}"], check=False).returncode


def cases() -> Iterator[ET.Element]:
    for part in PARTS:
        if report(part).exists():
            yield from ET.parse(report(part)).iter("testcase")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
