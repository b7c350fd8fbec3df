"""Quantised checkpoints and the platform's quantisation configurations."""
