from barnabas.spark.sink.record_encoder import Arrow, Payload

class RecordEncoder:
    def __init__(self, partitions: int, batch_bytes: int, sticky: int) -> None: ...
    def append(
        self,
        values: Arrow,
        keys: Arrow | None,
        timestamps_us: Arrow | None,
        partitions: Arrow | None,
        headers: Arrow | None,
        now_ms: int,
    ) -> list[Payload]: ...
    def take(self) -> list[Payload]: ...
