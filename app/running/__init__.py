"""Runs: the classifiers are called here. ``solvers`` decide what is called, these modules call it."""
