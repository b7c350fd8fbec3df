"""Compiles the declared kernels for each target on a machine without one, through their own launch wrappers."""
