"""Repositories over the Redis-protocol store, and the embedded Redis server."""
