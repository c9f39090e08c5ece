"""Attacks on a broker, as hostile and demanding users try them, and their cost."""
