from barnabas.spark.source.record_decoder import Buffer, ColumnBuffers

class Columns:
    def __init__(self, start: int, end: int, earliest: int, latest: int, headers: bool) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def size(self) -> int: ...
    def append(
        self,
        payload: Buffer,
        base_offset: int,
        base_timestamp: int,
        log_append_time: bool,
        count: int,
    ) -> None: ...
    def take(self) -> ColumnBuffers: ...
