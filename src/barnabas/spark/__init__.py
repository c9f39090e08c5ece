"""The data pipeline on Apache Spark: data source, sink and ready-made pipelines."""
