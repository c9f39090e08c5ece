"""One partition's leader or follower."""
