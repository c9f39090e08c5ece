"""The seeds of the tests with random faults, and the length of those that go on for a time.

`make test` and CI make the same choices each time, for a few seconds, so that a red run is the
fault of a change. `make chaos` and `make crash` set an environment variable that asks for more, and
then the choices are random. BARNABAS_CHAOS_SEED repeats the choices of a run of `make chaos`.
"""

import os
from random import SystemRandom
from typing import Final

CHAOS: Final = "BARNABAS_CHAOS_SECONDS"
IS_LONG: Final = CHAOS in os.environ
SECONDS: Final = int(os.environ.get(CHAOS, "12"))


def chaos_seed() -> int:
    given = os.environ.get("BARNABAS_CHAOS_SEED")
    return int(given) if given else seed_of(CHAOS)


def seed_of(variable: str) -> int:
    """1, or a random seed if this environment variable asks for a longer run."""
    return SystemRandom().randrange(10**6) if variable in os.environ else 1
