"""Benchmarks of one broker beside the machine's own limits."""
