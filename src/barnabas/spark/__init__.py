"""The data pipeline, on Apache Spark through PySpark: data source, sink, pipelines."""
