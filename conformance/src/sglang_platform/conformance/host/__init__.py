"""Checks that need a running SGLang: real engines in processes of their own, on checkpoints made on the spot."""
