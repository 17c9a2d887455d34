"""Several copies of one log: a leader ships it, followers take it in and report."""
