"""Checkers: the history of a run against the promises."""
