"""The bit field of authorized operations in a response to a client that did not ask for it."""

from typing import Final

NOT_ASKED: Final = -(2**31)
