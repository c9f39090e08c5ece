"""The follower's side of replication: fetchers, append, truncation by leader epoch."""
