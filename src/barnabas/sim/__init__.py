"""Deterministic simulation: a cluster of unmodified brokers in virtual time, from a seed."""
