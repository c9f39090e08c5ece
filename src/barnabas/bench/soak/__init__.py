"""A cluster under a steady load for an hour, and the verdict on its growth."""
