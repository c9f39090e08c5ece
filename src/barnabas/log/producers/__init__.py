"""Producer state of one partition: sequences, epochs, snapshots."""
