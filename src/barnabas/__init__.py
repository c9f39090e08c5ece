"""Apache Kafka's distributed log, in Python."""
