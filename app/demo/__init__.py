"""The main job on real input: one module a subject, joined by ``run``."""
