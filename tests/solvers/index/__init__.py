"""Tests of the index kind."""
