"""The coordination tree inside the broker's process, journalled on disk."""
