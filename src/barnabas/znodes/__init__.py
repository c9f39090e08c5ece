"""The coordination tree: its interface, its implementations, and Kafka's layout on it."""
