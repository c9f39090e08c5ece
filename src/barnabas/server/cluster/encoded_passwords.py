"""Passwords among a broker's dynamic configs: encrypted in the tree, plain in memory only."""

import logging
from collections.abc import Mapping

from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig, broker_key
from barnabas.security.password_encoder import PasswordEncoder

log = logging.getLogger("barnabas.configs")


class EncodedPasswords:
    """Encrypts with `password.encoder.secret`; reads with that or the old secret."""

    def __init__(self, config: BrokerConfig, random: Random) -> None:
        self._random = random
        self._encoder = _encoder(config, "password.encoder.secret")
        self._old = _encoder(config, "password.encoder.old.secret")

    def encoded(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config as the tree stores it.

        Raises  ConfigError, if it has a password and there is no secret
        """
        return {name: self._encoded(name, text) for name, text in config.items()}

    def decoded(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config as it is used; a password that cannot be read is left out."""
        found: dict[str, str] = {}
        for name, text in config.items():
            try:
                found[name] = self._decoded(text) if _is_password(name) else text
            except ConfigError as error:
                log.warning("dynamic config ignored: %s: %s", name, error)
        return found

    def _encoded(self, name: str, text: str) -> str:
        if not _is_password(name):
            return text
        if self._encoder is None:
            raise ConfigError(
                "Dynamic config of password configs requires password.encoder.secret to be set:"
                f" {name}"
            )
        return self._encoder.encode(text, self._random)

    def _decoded(self, text: str) -> str:
        if self._encoder is None:
            raise ConfigError("password.encoder.secret is not set")
        try:
            return self._encoder.decode(text)
        except ConfigError:
            if self._old is None:
                raise
            return self._old.decode(text)


def _is_password(name: str) -> bool:
    key = broker_key(name)
    return key is not None and key.sensitive


def _encoder(config: BrokerConfig, key: str) -> PasswordEncoder | None:
    secret = config.optional_str(key)
    if not secret:
        return None
    return PasswordEncoder(
        secret,
        config.optional_str("password.encoder.keyfactory.algorithm") or "PBKDF2WithHmacSHA512",
        config.str("password.encoder.cipher.algorithm"),
        config.int("password.encoder.key.length"),
        config.int("password.encoder.iterations"),
    )
