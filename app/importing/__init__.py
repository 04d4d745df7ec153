"""Imports of logs: convert logs of model calls into a trace.

Proxies and tracing tools write such logs.
"""
