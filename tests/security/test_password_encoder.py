"""Passwords encrypted as Kafka stores them."""

import pytest

from barnabas.base.errors import ConfigError
from barnabas.base.randomness import Random
from barnabas.config.broker_config import BrokerConfig
from barnabas.security.password_encoder import PasswordEncoder
from barnabas.server.cluster.encoded_passwords import EncodedPasswords

KEY = "listener.name.ssl.ssl.keystore.password"


@pytest.mark.parametrize("factory", ["PBKDF2WithHmacSHA512", "PBKDF2WithHmacSHA1"])
def test_s9_a_password_is_encrypted_and_decrypted(factory: str) -> None:
    encoder = PasswordEncoder("secret", factory)
    encoded = encoder.encode("pässword", Random(1))
    assert "pässword" not in encoded
    assert encoder.decode(encoded) == "pässword"
    with pytest.raises(ConfigError, match=r"password\.encoder\.secret"):
        PasswordEncoder("other").decode(encoded)


def test_s9_the_old_secret_still_reads_and_the_new_one_writes() -> None:
    old = EncodedPasswords(BrokerConfig({"password.encoder.secret": "a"}), Random(1))
    stored = old.encoded({KEY: "p", "num.io.threads": "4"})
    assert stored["num.io.threads"] == "4"
    both = {"password.encoder.secret": "b", "password.encoder.old.secret": "a"}
    new = EncodedPasswords(BrokerConfig(both), Random(2))
    assert new.decoded(stored) == {KEY: "p", "num.io.threads": "4"}
    only = EncodedPasswords(BrokerConfig({"password.encoder.secret": "b"}), Random(3))
    assert only.decoded(stored) == {"num.io.threads": "4"}
    assert only.decoded(new.encoded({KEY: "q"})) == {KEY: "q"}


def test_s9_without_a_secret_a_password_is_refused() -> None:
    none = EncodedPasswords(BrokerConfig({}), Random(1))
    with pytest.raises(ConfigError, match=r"password\.encoder\.secret"):
        none.encoded({KEY: "p"})
