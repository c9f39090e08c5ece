"""Log compaction: dirtiest log, offset map, cleaned segments, swap."""
