"""The values of one listener, of one mechanism, of all."""

from barnabas.config.listener_values import ListenerValues

TEXTS = {
    "ssl.keystore.location": "base",
    "listener.name.external.ssl.keystore.location": "external",
    "sasl.jaas.config": "any",
    "listener.name.external.scram-sha-512.sasl.jaas.config": "special",
    "listener.name.internal.ssl.client.auth": "required",
}


def test_s2_the_value_of_a_listener_counts_before_the_base() -> None:
    external = ListenerValues(TEXTS, {"ssl.client.auth": "none"}, "EXTERNAL")
    assert external.get("ssl.keystore.location") == "external"
    assert external.get("ssl.client.auth") == "none"
    assert external.own("ssl.client.auth") is None
    assert external.all("ssl.") == {"ssl.keystore.location": "external"}
    internal = ListenerValues(TEXTS, {}, "INTERNAL")
    assert internal.get("ssl.keystore.location") == "base"
    assert internal.own("ssl.client.auth") == "required"


def test_s2_the_value_of_a_mechanism_counts_before_that_of_the_listener() -> None:
    external = ListenerValues(TEXTS, {}, "EXTERNAL")
    assert external.of_mechanism("SCRAM-SHA-512", "sasl.jaas.config") == "special"
    assert external.of_mechanism("PLAIN", "sasl.jaas.config") == "any"
