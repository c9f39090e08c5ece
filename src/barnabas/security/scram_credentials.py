"""SCRAM credentials of users: Kafka's text in the tree, and the cache of one broker.

The config of `/config/users/<user>` holds one for each mechanism:

    SCRAM-SHA-512   salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=4096
"""

import base64
import binascii
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.client.scram import HASHES, client_key, server_key, stored_key

log = logging.getLogger("barnabas.sasl")

LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
# The numbers of the mechanisms in Describe- and AlterUserScramCredentials.
MECHANISM_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def credential_of(
    mechanism: str, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential that a server keeps of a salted password."""
    algorithm = HASHES[mechanism]
    own = stored_key(algorithm, client_key(algorithm, salted_password))
    return ScramCredential(salt, own, server_key(algorithm, salted_password), iterations)


def credential_text(credential: ScramCredential) -> str:
    salt, stored, server = (base64.b64encode(each).decode() for each in credential[:3])
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def parse_credential(text: str) -> ScramCredential:
    """Raises ValueError."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    try:
        salt, stored, server = (
            base64.b64decode(pairs[name], validate=True)
            for name in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, stored, server, int(pairs["iterations"]))
    except (KeyError, binascii.Error) as error:
        raise ValueError(f"not a SCRAM credential: {error}") from None


class ScramCredentials:
    """The credentials of all users, by mechanism and name."""

    def __init__(self) -> None:
        self._by_user: dict[str, dict[str, ScramCredential]] = {}

    def get(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._by_user.get(user, {}).get(mechanism)

    def of_user(self, user: str) -> Mapping[str, ScramCredential]:
        return self._by_user.get(user, {})

    def users(self) -> list[str]:
        return sorted(user for user, found in self._by_user.items() if found)

    def know(self, user: str, config: Mapping[str, str]) -> None:
        """Use the credentials in a user's config; those that cannot be read are left out."""
        found: dict[str, ScramCredential] = {}
        for mechanism in HASHES:
            if mechanism in config:
                try:
                    found[mechanism] = parse_credential(config[mechanism])
                except ValueError as error:
                    log.warning("ignoring a credential user=%s why=%s", user, error)
        if found:
            self._by_user[user] = found
        else:
            self._by_user.pop(user, None)

    def clear(self) -> None:
        self._by_user.clear()
