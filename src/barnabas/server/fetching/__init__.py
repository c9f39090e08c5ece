"""Fetch on the leader: sessions, partitions that wait, records shared among partitions."""
