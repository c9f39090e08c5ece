"""The security properties of Kafka's Java client, in librdkafka's names."""

from collections.abc import Mapping
from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.client.key_stores import read_key_store, read_trust_store
from barnabas.config.jaas import jaas_options

_STORES: Final = ("ssl.truststore.", "ssl.keystore.")
_JAVA_ONLY: Final = (
    *_STORES,
    "sasl.jaas.config",
    "ssl.enabled.protocols",
    "ssl.protocol",
    "sasl.login.",
    "sasl.client.callback.",
)
_SUBJECT: Final = "unsecuredLoginStringClaim_sub"


def librdkafka_names(properties: Mapping[str, str]) -> dict[str, str]:
    """The same properties for librdkafka; those that it has itself stay as they are.

    Raises  ConfigError, for a store or a JAAS string that cannot be read, or SASL without mechanism
    """
    if properties.get("security.protocol", "").upper().startswith("SASL_") and not (
        properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    ):
        raise ConfigError("sasl.mechanism is not set: SCRAM-SHA-512, PLAIN, ...")
    found = {key: text for key, text in properties.items() if not key.startswith(_JAVA_ONLY)}
    if any(key.startswith(_STORES) for key in properties):
        trusted, own = read_trust_store(properties), read_key_store(properties)
        if trusted is not None:
            found["ssl.ca.pem"] = trusted
        if own is not None:
            found["ssl.certificate.pem"] = own.chain
            found["ssl.key.pem"] = own.key or own.chain
    if jaas := properties.get("sasl.jaas.config", "").strip():
        found |= _login(jaas_options(jaas), properties.get("sasl.mechanism", "").upper())
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def _login(options: Mapping[str, str], mechanism: str) -> dict[str, str]:
    if options.get("tokenauth", "").lower() == "true":
        raise ConfigError("sasl.jaas.config: librdkafka cannot log in with a delegation token")
    if mechanism != "OAUTHBEARER":
        names = {"username": "sasl.username", "password": "sasl.password"}
        return {ours: options[theirs] for theirs, ours in names.items() if theirs in options}
    if _SUBJECT in options:
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={options[_SUBJECT]}",
        }
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    found = {
        f"sasl.oauthbearer.{ours}": options[theirs]
        for theirs, ours in names.items()
        if theirs in options
    }
    return {"sasl.oauthbearer.method": "oidc", **found}
