"""Recordings on disk: append-only logs that become Parquet segments, bounded in size and age."""
