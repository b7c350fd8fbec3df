"""Inspects installed modules, files and distribution metadata without importing them.

- `modules`: find a module as an import would.
- `address`: a module and a path of attributes in it.
- `files`: the bytes of a file, within limits.
- `distributions`: versions, metadata headers, requirements.
"""
