"""The principal of a connection: who its requests are made by."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type and a name, written `User:alice` as in Kafka's ACLs and audit log."""

    name: str
    type: str = USER
    # A session that a delegation token authenticated may not ask for another token.
    is_token: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


# The principal of a plaintext connection, and of TLS without a client certificate.
ANONYMOUS: Final = Principal("ANONYMOUS")
