"""HTTP, one module a resource: parse, call, answer; no arithmetic.

A subject's module has a ``router``; ``what_if``, which makes its query of those ``LIMITS`` among size, budget and
deadline that mean something to it; and ``look_ups``, if some of its routes are answered on the hot path.
"""
