"""The transaction coordinator: decisions about transactional ids, and their records.

A transactional id has one entry, in the shard of its partition of `__transaction_state`. A decision
looks at the entry, the request and the time; it returns an error or the metadata to write. The
entry changes when the record of that metadata is committed, and at most one change is pending.
"""
