"""Base classes for the memory of the engine: KV pools, allocators, the request table.

    kv_cache.py       what every KV pool shares
    mha.py mla.py dsa.py   the pools by kind of attention
    index_keys.py     the DSA indexer's keys and scales, page by page
    packed_fp8.py     the DSA row format with one scale per 128 values
    rows.py           copying rows in and out of a buffer
    req_to_token.py   request -> slots
    allocator.py paged.py  the ownership of slots; base_allocator.py is their base class
    free_list.py ids.py    the free ids themselves
    page_marks.py     which pages are free: a page freed twice is refused
    page_arithmetic.py  slots of an extend and of a decode step

All of it runs without SGLang, on any torch device. In the host each class is re-based on the host's of the
same name. The classes are public names of `sglang_platform.core`, where they are bound on first use.
"""
