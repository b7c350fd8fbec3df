"""`sglang-platform new`: a vendor's own package, by one of two roads.

`torch_plugin` has the few files for a device that a torch plugin brings; `source` finds those of the example device, of
which the other road is a copy. `names` says what a vendor's name becomes in each place, `copying` writes the files.
"""
