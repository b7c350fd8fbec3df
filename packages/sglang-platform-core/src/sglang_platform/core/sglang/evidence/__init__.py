"""Records of a running process: its report, its counters, and what its platform returns."""
