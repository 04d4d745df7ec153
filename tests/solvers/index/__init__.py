"""Tests of the index solver."""
