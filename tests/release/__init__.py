"""Releases: what is in a wheel, what it needs, what operators get with it."""
