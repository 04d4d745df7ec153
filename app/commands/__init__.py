"""The commands of ``parsimony``, by what they are about; ``app/cli.py`` joins them."""
