"""Arrow record batches from decoded columns, in the schema that Spark wants."""

from typing import Any

import pyarrow

from barnabas.spark.source.record_decoder import Bytes, ColumnBuffers, Headers

# Its public names are not declared in a way that type checkers accept.
pa: Any = pyarrow


class ArrowBatches:
    """Builds the Arrow batches of one partition; columns with one constant value are reused."""

    def __init__(self, schema: Any, topic: str, partition: int) -> None:
        self._schema = schema
        self._topic, self._partition = topic, partition
        self._topics = pa.repeat(pa.scalar(topic, pa.string()), 0)
        self._partitions = pa.repeat(pa.scalar(partition, pa.int32()), 0)

    def batch(self, taken: ColumnBuffers) -> Any:
        """Build one batch from decoded columns, without copying their buffers."""
        rows, offsets, timestamps, types, keys, values, headers = taken
        if len(self._topics) < rows:
            self._topics = pa.repeat(pa.scalar(self._topic, pa.string()), rows)
            self._partitions = pa.repeat(pa.scalar(self._partition, pa.int32()), rows)
        columns = [
            _binary(pa.binary(), rows, keys),
            _binary(pa.binary(), rows, values),
            self._topics[:rows],
            self._partitions[:rows],
            pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets)], 0),
            pa.Array.from_buffers(
                pa.timestamp("us", tz="UTC"), rows, [None, pa.py_buffer(timestamps)], 0
            ),
            pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(types)], 0),
        ]
        if headers is not None:
            columns.append(_headers(self._schema.field("headers").type, rows, headers))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _binary(kind: Any, rows: int, column: Bytes) -> Any:
    offsets, data, validity, nulls = column
    buffers = [
        None if validity is None else pa.py_buffer(validity),
        pa.py_buffer(offsets),
        pa.py_buffer(data),
    ]
    return pa.Array.from_buffers(kind, rows, buffers, nulls)


def _headers(kind: Any, rows: int, headers: Headers) -> Any:
    (offsets, validity, nulls), count, keys, values = headers
    pairs = pa.StructArray.from_arrays(
        [_binary(pa.string(), count, keys), _binary(pa.binary(), count, values)],
        fields=list(kind.value_type),
    )
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, rows, buffers, nulls, children=[pairs])
