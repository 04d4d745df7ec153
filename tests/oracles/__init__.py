"""Brute force: what each subject's answers are held against, one module a subject."""
