"""Produce requests and responses, read and written by hand."""
