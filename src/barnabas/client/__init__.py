"""Kafka's protocol as a client speaks it: connections, requests, responses."""
