"""One segment: its `.log` file, its indexes, and the active segment's end."""
