"""Workloads: the operations that simulated clients perform."""
