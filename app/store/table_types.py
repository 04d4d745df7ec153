"""Table formats by media type and by their first bytes."""

JSON = "application/json"
NDJSON = "application/x-ndjson"
NPY = "application/x-npy"
GZIP_TYPES = ("application/gzip", "application/x-gzip")
CSV_TYPES = ("text/csv", "application/csv", *GZIP_TYPES)
JSON_LINES_TYPES = ("application/jsonl", NDJSON, "application/x-jsonlines", "application/jsonlines")
PARQUET = "application/vnd.apache.parquet"
PARQUET_TYPES = (PARQUET, "application/x-parquet")
UNSPECIFIED_TYPES = ("", "application/octet-stream")
"""What clients send when they do not know: the bytes decide."""
PARQUET_MAGIC = b"PAR1"
"""What a file of Parquet begins with."""
