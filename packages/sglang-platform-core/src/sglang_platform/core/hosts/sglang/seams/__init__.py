"""Seams: one file per feature that SGLang does not ask a platform for, and that a hook of ours carries in."""
