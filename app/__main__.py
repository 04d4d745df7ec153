"""``python -m app`` is ``parsimony``."""

from app.cli import main

main()
