"""Security: the principal of a connection, and what it is allowed to do."""
