"""The main job on real input: one module a kind, joined by ``run``."""
