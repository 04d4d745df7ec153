"""Entry point of ``python -m app``, the same as ``parsimony``."""

from app.cli.main import main

main()
