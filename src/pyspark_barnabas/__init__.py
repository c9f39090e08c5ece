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

    def schema(self) -> Any:
        if self._table is not None:
            from barnabas.spark.source.table_view import schema_of

            return schema_of(self._table)
        from barnabas.spark.source.spark_source import schema

        return schema(self.options)

    @property
    def _table(self) -> str | None:
        return next((text for name, text in self.options.items() if name.lower() == "table"), None)

    def reader(self, schema: Any) -> DataSourceReader:
        if self._table is not None:
            from barnabas.spark.source.view_reader import view_reader

            return view_reader(self.options, schema)
        from barnabas.spark.source.spark_source import reader

        return reader(self.options, schema)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        if self._table is not None:
            from barnabas.spark.source.view_reader import view_stream_reader

            return view_stream_reader(self.options, schema)
        from barnabas.spark.source.stream import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        from barnabas.spark.sink.spark_sink import writer

        return writer(self.options, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        from barnabas.spark.sink.spark_sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
