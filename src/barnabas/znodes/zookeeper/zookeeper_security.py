"""The security of a session with ZooKeeper: TLS, SASL (DIGEST-MD5), and the ACLs of its nodes."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

if TYPE_CHECKING:
    import ssl

# Nodes below these hold secrets: nobody but the brokers reads them.
SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """`set_acl` protects new nodes: only their creator changes them, everybody reads most."""

    tls: "ssl.SSLContext | None" = None
    username: str = ""
    password: str = field(default="", repr=False)
    set_acl: bool = False

    def sasl_options(self) -> dict[str, str] | None:
        if not self.username:
            return None
        return {"mechanism": "DIGEST-MD5", "username": self.username, "password": self.password}

    def acl_of(self, path: str) -> list[Any]:
        """The ACL of a new node."""
        if not self.set_acl:
            return list(OPEN_ACL_UNSAFE)
        if any(path == each or path.startswith(f"{each}/") for each in SENSITIVE):
            return list(CREATOR_ALL_ACL)
        return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


OPEN: Final = ZooKeeperSecurity()
