"""Observations over time: events of the cluster, lag of groups."""
