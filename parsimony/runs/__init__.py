"""Runs of items as state machines, shared by the client and the server.

- ``steps``: what a run yields and receives, and its answer
- ``cascade``, ``index``, ``pipeline``, ``policy``, ``portfolio``: the run of each kind
"""
