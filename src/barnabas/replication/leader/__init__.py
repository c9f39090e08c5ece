"""The leader's side of replication: ISR, high watermark, follower progress."""
