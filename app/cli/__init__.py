"""The command line: ``main`` joins the commands, which stand here by what they are about."""
