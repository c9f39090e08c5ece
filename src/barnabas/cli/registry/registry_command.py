"""`barnabas registry`: serves the registry over HTTP until it is stopped."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Properties

if TYPE_CHECKING:
    from barnabas.cli.registry.registry_api import RegistryApi

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_MOST_BYTES: Final = 16 * 1024 * 1024


def registry(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Address of the REST API.")
    ] = "127.0.0.1:8081",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Serve a schema registry, for tests and small clusters, with Confluent's REST API.

    Schemas are in the topic _schemas, in Confluent's form. Avro, Protobuf and JSON Schema, with
    compatibility levels. Run one registry for a cluster. Prints `ready ... http://HOST:PORT` on
    stdout when it serves.

    \b
    Examples:
      barnabas registry
      barnabas registry --listen 0.0.0.0:8081 -b broker:9092
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.cli.registry.registry_api import RegistryApi
    from barnabas.cli.registry.registry_store import RegistryStore

    address = _address(listen)
    store = RegistryStore(ClusterClients(bootstrap, properties))
    try:
        with serve(RegistryApi(store), address) as server:
            host, port = server.server_address[:2]
            print(f"ready registry of {bootstrap} on http://{host!s}:{port}", flush=True)
            server.serve_forever(poll_interval=0.1)
    finally:
        store.close()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise Misused(f"--listen {text}: expected HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def serve(api: "RegistryApi", address: tuple[str, int]) -> ThreadingHTTPServer:
    """A server at the address. Raises CommandFailed if it is taken."""

    class Handler(BaseHTTPRequestHandler):
        """One connection: each request is answered as JSON."""

        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            size = self.headers.get("Content-Length", "0")
            if not size.isdecimal() or int(size) > _MOST_BYTES:
                self.send_error(413)
                return
            status, found = api.answer(self.command, self.path, self.rfile.read(int(size)))
            body = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", _CONTENT)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Nothing per request."""

    class Server(ThreadingHTTPServer):
        """A client that goes away before its answer leaves no traceback."""

        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    try:
        return Server(address, Handler)
    except OSError as error:
        raise CommandFailed(
            f"cannot listen on {address[0]}:{address[1]}: {error.strerror or error}"
        ) from None
