"""The coordination tree: its interface, two implementations, and Kafka's znodes."""
