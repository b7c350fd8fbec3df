"""Kernels that GPU packages share, each with its launch wrapper.

The facts that differ are arguments: a package hands in its `Hardware` (records, 8-bit formats, hints to the cache), and
what only its compiler needs, `partial(kv_store.store_pair, hardware=HARDWARE)`.

    fp8_codes.py stored_rows.py   8-bit floats, and the rows of a cache that hold them
    kv_store.py rotary_store.py dsa_store.py   stores
    quantise.py
    extend.py die_order.py dsa_index.py   attention of several new tokens; the indexer of sparse attention
"""
