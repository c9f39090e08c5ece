"""Checkers: compare the history of a run with the cluster's guarantees."""
