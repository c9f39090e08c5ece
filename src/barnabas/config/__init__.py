"""Kafka's configuration: keys, types, defaults, rules, and the .properties format."""
