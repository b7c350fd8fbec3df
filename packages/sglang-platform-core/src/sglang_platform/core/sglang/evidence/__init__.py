"""Records of a running process: its report, its counters, and the answers of its platform."""
