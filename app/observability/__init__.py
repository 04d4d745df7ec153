"""What people and machines see of the service while it runs: its log and its metrics."""
