"""The transaction coordinator of this broker: its shards, its topic, its markers."""
