"""Runs: the service calls the endpoints of classifiers and returns their answers.

``solvers`` decide which classifiers to call; these modules call them.
"""
