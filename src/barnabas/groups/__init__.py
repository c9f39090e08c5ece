"""Consumer groups and committed offsets: the group coordinator's state machine.

State has two parts. What records of `__consumer_offsets` hold changes only by replaying them:
offsets, consumer groups, and the generation, members and assignment of classic groups.

The rest is soft: it is lost when another broker leads the partition, and clients recover it by
joining again. Soft state of a classic group: its state while it rebalances, the members that join
during a rebalance, who waits for a reply, who was given a member id. Soft state of a consumer
group: whether its topics may have changed (`is_stale`), and which classic members were asked to
join again. Soft state of a shard: a classic group that nobody has written to the log yet.

`decide_` functions change neither. `on_` functions receive a request or an event and may change
soft state; their turn gathers the records and effects. `apply_` functions replay records.
"""
