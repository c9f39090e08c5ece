"""Commands of security: users and certificates."""
