"""Independent answers: what a correct platform must give, computed without any platform.

    precision.py         unit roundoff and range of every dtype, and the error terms made from them
    fp8.py               8-bit floats from their definition, bit by bit
    attention.py         attention in float64, with a bound on what a correct kernel may differ by
    ops.py               the fused ops in float64, likewise
    stored_bytes.py      the bytes that a value must be stored as
    memory_image.py      what every byte of a KV pool must be after a series of stores and moves
    allocator_model.py   who owns which page
    allocator_history.py calls of an allocator, each answer judged by that model
    allocator_fixes.py   what to do about a call that is wrong
    allocator_scripts.py series of calls, by name
    allocator_search.py  random histories; the shortest that fails

Nothing here imports core or a backend, and nothing calls a method of the platform under test: an oracle that
shared code with what it judges would share its defects.
"""
