"""Kernels for NVIDIA GPUs, one family per file, each handed to its launch wrapper in `core.portable.triton.wrappers`.

architecture.py   what is known of an architecture; tuning/ one file for each
fp8.py            float32 to e4m3 and e5m2, and back
stored_rows.py packed_rows.py   rows of a cache as the attention kernels read them
decode.py merge.py extend.py    attention
dsa_index.py dsa_store.py       sparse attention
kv_store.py quantise.py
declared.py                     how each is checked without a device
"""
