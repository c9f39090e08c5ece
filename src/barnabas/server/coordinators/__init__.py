"""The broker's side of coordinators: where they are, and the partitions that they write to."""
