"""The coordination tree on ZooKeeper, through kazoo."""
