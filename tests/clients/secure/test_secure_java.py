"""The Java clients of Kafka 3.9 and 4.1, unmodified, over every protocol and mechanism.

Skipped where Java or Maven Central is not available.
"""

import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from barnabas.bench.compare.maven import Artifact, Unavailable, fetched
from barnabas.config.properties import format_properties
from tests.support.logins import java
from tests.support.secure_broker import FORGED, SIGNED, WAYS, WRONG, SecureBroker

pytestmark = [pytest.mark.long, pytest.mark.timeout(700)]

_PROGRAM: Final = Path(__file__).parent / "SecureClients.java"
_REFUSED: Final = ("SaslAuthenticationException", "SslAuthenticationException")
_PATIENCE_MS: Final = 20_000
_ALLOWED: Final = "org.apache.kafka.sasl.oauthbearer.allowed."


def _libraries(version: str) -> Path:
    wanted = (
        Artifact("org.apache.kafka", "kafka-clients", version),
        Artifact("com.fasterxml.jackson.core", "jackson-databind", "2.16.2"),
        Artifact("org.bitbucket.b_c", "jose4j", "0.9.6"),
        Artifact("org.slf4j", "slf4j-nop", "1.7.36"),
    )
    return fetched(f"kafka-clients-{version}-alone", wanted)


@pytest.fixture(scope="module", params=["3.9.1", "4.1.0"])
def outcomes(
    request: pytest.FixtureRequest, secure: SecureBroker, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """The outcome of each login; one process of Java tries all."""
    command = shutil.which("java")
    if command is None:
        pytest.skip("java not found")
    try:
        libraries = _libraries(request.param)
    except Unavailable as reason:
        pytest.skip(f"no Java client {request.param}: {reason}")
    folder = tmp_path_factory.mktemp("java")
    arguments: list[str] = []
    for number, name in enumerate((*WAYS, SIGNED, *WRONG, FORGED)):
        login = secure.logins[name]
        more = {"topic": f"java-{uuid.uuid4()}", "patience": str(_PATIENCE_MS)}
        file = folder / f"{number}.properties"
        file.write_text(format_properties(java(login) | more))
        arguments += [name.replace(" ", "_"), str(file)]
    tokens = [each.token for each in secure.logins.values() if each.token is not None]
    allowed = {
        "urls": ",".join(token.as_uri() for token in tokens),
        "files": ",".join(map(str, tokens)),  # since 4.1
    }
    options = [f"-D{_ALLOWED}{kind}={each}" for kind, each in allowed.items()]
    printed = subprocess.run(
        [command, *options, "-cp", f"{libraries}/*", str(_PROGRAM), *arguments],
        stdout=subprocess.PIPE,
        timeout=600,
        text=True,
        check=True,
    ).stdout
    pairs = (line.split(" = ") for line in printed.splitlines())
    return {name.replace("_", " "): outcome for name, outcome in pairs}


@pytest.mark.parametrize("way", [*WAYS, SIGNED])
def test_the_java_client_gets_in(outcomes: Mapping[str, str], way: str) -> None:
    assert outcomes[way.replace("_", " ")] == "ok"


@pytest.mark.parametrize("way", [*WRONG, FORGED])
def test_the_java_client_with_wrong_credentials_is_refused(
    outcomes: Mapping[str, str], way: str
) -> None:
    assert outcomes[way.replace("_", " ")] in _REFUSED
