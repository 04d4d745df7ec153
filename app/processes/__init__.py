"""Plain Linux: processes, threads and the time. Nothing here knows of Parsimony."""
