"""Sockets: listeners, connections, and the order of responses."""
