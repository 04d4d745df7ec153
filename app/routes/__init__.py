"""HTTP, one module a resource: parse, call, answer; no arithmetic.

A subject's module has a ``router``, ``what_if`` (its query for a size, budget and deadline), and ``look_ups`` if some
of its routes are answered on the hot path.
"""
