"""Builds: the worker that runs them, its supervisor, and the watchdog."""
