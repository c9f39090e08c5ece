"""Tests of authentication and encryption."""
