"""Linux processes, threads, and clocks; independent of the rest of Parsimony."""
