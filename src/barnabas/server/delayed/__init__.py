"""Requests that wait in purgatory: Produce, Fetch, DeleteRecords."""
