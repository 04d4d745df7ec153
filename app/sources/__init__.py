"""Datasets by reference: Parquet files that are checked and sampled in place.

The files are on disk or in object stores.
"""
