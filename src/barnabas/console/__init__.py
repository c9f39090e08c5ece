"""The web console: pages that show a Kafka cluster, and actions on it."""
