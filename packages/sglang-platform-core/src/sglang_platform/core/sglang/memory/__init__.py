"""A worker's device memory: its tensors, and the memory saver."""
