from barnabas.server.requests.fast_path import Served, Shortcuts
from barnabas.wire.fetch.fetch_codec import Buffer

def serve_known(
    view: memoryview,
    start: int,
    end: int,
    most: int,
    shortcuts: Shortcuts,
    size: int,
    out: list[Buffer],
    queued: int,
) -> Served: ...
