"""`barnabas certs`: a small certificate authority, for development and tests."""

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.subcommands import command_group

app = command_group("Create certificates for development and tests.")

Dir = Annotated[Path, typer.Option("--dir", "-d", metavar="DIR", help="Directory of the CA.")]
_DIR = Path("barnabas-certs")


@app.command()
def ca(
    directory: Dir = _DIR,
    days: Annotated[int, typer.Option("--days", min=1, max=36500, help="Days it is valid.")] = 3650,
) -> None:
    """Create a certificate authority: ca.pem, ca.p12 and its key, ca.key.

    \b
    Examples:
      barnabas certs ca --dir ./certs
    """
    from barnabas.base.errors import ConfigError
    from barnabas.security.certificate_authority import STORE_PASSWORD, CertificateAuthority

    try:
        authority = CertificateAuthority.create(directory, days)
    except ConfigError as error:
        raise CommandFailed(str(error)) from None
    print(f"{authority.certificate_file}: trust it with ssl.truststore.location")
    print(f"{directory / 'ca.p12'}: the same for Java, password {STORE_PASSWORD}")


@app.command()
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The common name.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="Host name or address; repeatable."),
    ] = None,
    directory: Dir = _DIR,
    days: Annotated[int, typer.Option("--days", min=1, max=36500, help="Days it is valid.")] = 825,
) -> None:
    """Issue a certificate for a broker or a client: NAME.pem, with its key, and NAME.p12.

    \b
    Examples:
      barnabas certs issue broker-0 --host kafka-0.example.org --host 10.0.0.1
      barnabas certs issue alice
    """
    from barnabas.base.errors import ConfigError
    from barnabas.security.certificate_authority import STORE_PASSWORD, CertificateAuthority

    if not name or "/" in name or name.startswith("."):
        raise Misused(f"{name!r} cannot be the name of a file")
    if name == "ca":
        raise Misused("ca.pem is the certificate of the authority itself; choose another name")
    try:
        issued = CertificateAuthority(directory).issue(name, host or (), days)
    except ConfigError as error:
        raise CommandFailed(f"{error}; create one with `barnabas certs ca`") from None
    print(f"{issued.pem}: use it as ssl.keystore.location")
    print(f"{issued.pkcs12}: the same for Java, password {STORE_PASSWORD}")
