"""Ids, errors, laws, configuration and the seams (clock, randomness, disk, threads)."""
