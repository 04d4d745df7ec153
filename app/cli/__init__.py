"""Command line; ``main`` combines the commands of the other modules."""
