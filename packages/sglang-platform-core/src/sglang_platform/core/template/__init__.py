"""`sglang-platform new`: the example device as a vendor's own package.

`names` says what a vendor's name becomes in each place, `source` finds the example's files, `copying` writes them.
"""
