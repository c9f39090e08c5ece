"""Exactly-once writes to topics."""
