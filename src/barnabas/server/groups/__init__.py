"""The group coordinator on this broker."""
