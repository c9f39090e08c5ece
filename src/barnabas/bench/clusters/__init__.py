"""Benchmarks of clusters: failover, restart, replication, groups."""
