"""``python -m app`` is ``parsimony``."""

from app.cli.main import main

main()
