"""Kafka's configuration: keys, types, defaults, rules, and Java's .properties format."""
