"""The server's side of SCRAM, as small as a test needs it, over the functions of `scram`."""

import base64

from barnabas.client.scram import (
    attributes,
    auth_message,
    client_key,
    masked,
    salted_password,
    server_key,
    server_signature,
    stored_key,
)

SALT = b"sixteen bytes of"


class ScramServer:
    """Knows one password, as salt, iterations, stored key and server key."""

    def __init__(self, algorithm: str, password: str, iterations: int = 4096) -> None:
        salted = salted_password(algorithm, password, SALT, iterations)
        self._algorithm = algorithm
        self._iterations = iterations
        self._stored_key = stored_key(algorithm, client_key(algorithm, salted))
        self._server_key = server_key(algorithm, salted)
        self.username = ""
        self._client_first = self._server_first = ""

    def first(self, client_first: bytes) -> bytes:
        self._client_first = client_first.decode().removeprefix("n,,")
        said = attributes(self._client_first.encode())
        self.username = said["n"]
        salt = base64.b64encode(SALT).decode()
        self._server_first = f"r={said['r']}server,s={salt},i={self._iterations}"
        return self._server_first.encode()

    def final(self, client_final: bytes) -> bytes:
        """The signature, if the client proves that it knows the password."""
        without_proof, _, proof = client_final.decode().rpartition(",p=")
        message = auth_message(self._client_first, self._server_first, without_proof)
        key = masked(self._algorithm, base64.b64decode(proof), self._stored_key, message)
        if stored_key(self._algorithm, key) != self._stored_key:
            return b"e=invalid-proof"
        signature = server_signature(self._algorithm, self._server_key, message)
        return b"v=" + base64.b64encode(signature)
