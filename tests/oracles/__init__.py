"""Brute force: what each kind's answers are held against, one module a kind."""
