"""Datasets by reference: Parquet files on disk or in object stores, checked and sampled where they are."""
