"""Kafka's wire protocol: frames, API schemas, record batches."""
