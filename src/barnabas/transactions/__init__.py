"""The transaction coordinator: its states, its records and its decisions, without I/O."""
