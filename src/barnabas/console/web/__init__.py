"""HTTP: rendering, access, live updates, the audit log."""
