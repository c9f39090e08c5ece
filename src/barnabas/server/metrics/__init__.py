"""Metrics: the table, their values, and the HTTP endpoint for Prometheus."""
