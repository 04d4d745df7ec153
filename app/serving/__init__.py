"""What answers from memory: the live plans, and their answers as bytes."""
