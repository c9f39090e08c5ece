"""Background work: the log cleaner, retention, checkpoints."""
