"""The runtime of a coordinator whose state is one partition of an internal topic.

A coordinator's shard is a state machine that knows neither disk nor network. The runtime loads it
from the partition's log, asks it for decisions, appends their records, replays these into the
shard, and sends replies once the records are committed. `__consumer_offsets` runs on it.
"""
