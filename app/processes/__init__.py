"""Plain Linux: processes and threads. Nothing here knows of Parsimony."""
