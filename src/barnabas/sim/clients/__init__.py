"""Simulated clients: producers, consumers, group members, administrators."""
