"""The demo: example datasets, builds, and servers."""
