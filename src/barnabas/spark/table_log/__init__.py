"""Tables of topics on disk: the logs of Delta, Iceberg and Parquet tables, and their files."""
