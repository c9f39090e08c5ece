"""Consumer groups and committed offsets: decisions, and the records they rest on."""
