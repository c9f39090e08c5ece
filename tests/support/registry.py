"""A registry in this process, over a real broker and real HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.cli.client import ClusterClients
from barnabas.cli.registry.registry_api import RegistryApi
from barnabas.cli.registry.registry_command import serve
from barnabas.cli.registry.registry_store import RegistryStore


@contextmanager
def serving(bootstrap: str) -> Iterator[str]:
    """Yield the URL of a registry for the cluster."""
    store = RegistryStore(ClusterClients(bootstrap, None))
    with serve(RegistryApi(store), ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            store.close()
