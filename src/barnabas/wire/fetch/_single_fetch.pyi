from barnabas.wire.fetch.fetch_codec import Buffer

class SingleAnswer:
    def __init__(self, head: bytes, longs: int, middle: bytes, tail: bytes) -> None: ...
    def response(
        self,
        correlation_id: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: Buffer,
    ) -> list[Buffer]: ...
