"""Builds: the worker that runs them, and who watches over it."""
