"""The write side of format("barnabas")."""
