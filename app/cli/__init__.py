"""The command line: ``main`` joins the commands of the other modules."""
