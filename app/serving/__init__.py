"""Decisions from loaded artifacts in memory."""
