"""Kernels for NVIDIA GPUs: core's shared ones (`core.portable.triton.kernels`), and those that its hardware shapes.

hardware.py       core's kernels with the facts that they need of these devices
architecture.py   what is known of an architecture; tuning/ one file for each
decode.py fp8_pairs.py whole_pages.py merge.py   attention of one new token per request
declared.py       how each is checked without a device
"""
