"""`barnabas pipeline init`, `run` and `list`: Spark Declarative Pipelines."""
