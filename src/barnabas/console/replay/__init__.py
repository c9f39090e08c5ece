"""Simulated runs as data for an animation."""
