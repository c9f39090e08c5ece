"""Record batches: header, records, compression."""
