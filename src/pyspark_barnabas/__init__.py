"""The data source that Spark finds by name: `format("barnabas")`, without a jar or registration.

Spark imports this package whenever it looks up data sources, so it imports everything else late.
"""

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)


class DefaultSource(DataSource):
    """The data source `barnabas`: reads topics as rows and writes rows to topics."""

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> str:
        from barnabas.spark.source.spark_source import schema

        return schema(self.options)

    def reader(self, schema: Any) -> DataSourceReader:
        from barnabas.spark.source.spark_source import reader

        return reader(self.options, schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        from barnabas.spark.source.stream import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark.sink.spark_sink import writer

        return writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.spark.sink.spark_sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
