"""Passwords among the dynamic broker configs, encrypted as Kafka stores them in the tree.

    keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,
    iterations:4096,salt:BASE64,initializationVector:BASE64,encryptedPassword:BASE64,
    passwordLength:6

Each value says how it was encrypted, so that other settings apply to new values only.
"""

import base64
import binascii
import hashlib
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random

_FACTORIES: Final = {
    "PBKDF2WithHmacSHA512": "sha512",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA1": "sha1",
}
_BLOCK: Final = 16


class PasswordEncoder(NamedTuple):
    """Encrypts with one secret."""

    secret: str
    key_factory: str = "PBKDF2WithHmacSHA512"
    cipher: str = "AES/CBC/PKCS5Padding"
    key_length: int = 128
    iterations: int = 4096

    def encode(self, password: str, random: Random) -> str:
        """Raises ConfigError, if the algorithms are not known."""
        if self.cipher != "AES/CBC/PKCS5Padding":
            raise ConfigError(f"password.encoder.cipher.algorithm: {self.cipher} is not supported")
        salt = random.uuid().bytes + random.uuid().bytes
        vector = random.uuid().bytes
        data = password.encode()
        padding = _BLOCK - len(data) % _BLOCK
        key = _key(self.secret, self.key_factory, salt, self.iterations, self.key_length)
        encrypted = _aes(key, vector, data + bytes([padding]) * padding, decrypts=False)
        parts = {
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": self.cipher,
            "keyLength": str(self.key_length),
            "iterations": str(self.iterations),
            "salt": base64.b64encode(salt).decode(),
            "initializationVector": base64.b64encode(vector).decode(),
            "encryptedPassword": base64.b64encode(encrypted).decode(),
            "passwordLength": str(len(password)),
        }
        return ",".join(f"{name}:{value}" for name, value in parts.items())

    def decode(self, encoded: str) -> str:
        """Raises ConfigError, if another secret encrypted it, or nothing did."""
        try:
            parts = dict(part.partition(":")[::2] for part in encoded.split(","))
            key = _key(
                self.secret,
                parts["keyFactoryAlgorithm"],
                base64.b64decode(parts["salt"]),
                int(parts["iterations"]),
                int(parts["keyLength"]),
            )
            vector = base64.b64decode(parts["initializationVector"])
            data = base64.b64decode(parts["encryptedPassword"])
            password = _unpadded(_aes(key, vector, data, decrypts=True)).decode()
            if len(password) != int(parts["passwordLength"]):
                raise ValueError("its length differs")
        except (KeyError, ValueError, binascii.Error) as error:
            raise ConfigError(
                f"a password in the tree cannot be decrypted with password.encoder.secret: {error}"
            ) from None
        return password


def _key(secret: str, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    algorithm = _FACTORIES.get(factory)
    if algorithm is None:
        raise ConfigError(f"password.encoder.keyfactory.algorithm: {factory} is not supported")
    return hashlib.pbkdf2_hmac(algorithm, secret.encode(), salt, iterations, bits // 8)


def _aes(key: bytes, vector: bytes, data: bytes, *, decrypts: bool) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES(key), modes.CBC(vector))
    context = cipher.decryptor() if decrypts else cipher.encryptor()
    return context.update(data) + context.finalize()


def _unpadded(data: bytes) -> bytes:
    if not data or not 1 <= data[-1] <= _BLOCK or data[-data[-1] :] != bytes([data[-1]]) * data[-1]:
        raise ValueError("the padding is wrong")
    return data[: -data[-1]]
