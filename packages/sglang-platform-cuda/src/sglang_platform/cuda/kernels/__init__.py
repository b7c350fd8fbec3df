"""Kernels for NVIDIA GPUs: core's portable ones (`core.portable.triton.kernels`), and hardware-specific ones.

hardware.py       core's kernels with the facts about these devices that they need
architecture.py   the record of an architecture; tuning/ has one file for each
decode.py fp8_pairs.py whole_pages.py merge.py   attention of one new token per request
declared.py       how each is checked without a device
"""
