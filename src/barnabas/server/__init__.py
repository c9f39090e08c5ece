"""Connections, dispatch, handlers, and the composition of a broker."""
