"""Ids, errors, laws, failures, and the seams to the machine: clock, randomness, threads."""
