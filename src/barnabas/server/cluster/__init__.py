"""A broker's place in its cluster: registration, metadata, topics, configs, replica roles."""
