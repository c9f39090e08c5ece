"""`barnabas pipeline archive`: topics to Parquet files."""
