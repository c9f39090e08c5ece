"""What goes over a socket: frames, API schemas, record batches."""
