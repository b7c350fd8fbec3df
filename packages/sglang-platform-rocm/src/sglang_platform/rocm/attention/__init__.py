"""Attention on AMD GPUs."""
