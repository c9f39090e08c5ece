"""Messages of a topic: reading, filtering, decoding, producing."""
