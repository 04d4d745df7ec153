"""Imports of logs: turns logs of model calls, which proxies and tracing tools write, into a trace."""
