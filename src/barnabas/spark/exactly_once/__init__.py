"""Exactly-once writes of streaming queries."""
