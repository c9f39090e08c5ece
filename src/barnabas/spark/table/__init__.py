"""`barnabas pipeline table`: a topic as a table of Delta, Iceberg or Parquet."""
