"""Recordings on disk: append-only logs, converted to Parquet segments.

Recordings are bounded in size and age.
"""
