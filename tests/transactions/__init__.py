"""Tests of the transaction coordinator's decisions and records."""
