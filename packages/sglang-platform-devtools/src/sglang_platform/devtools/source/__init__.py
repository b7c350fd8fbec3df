"""Reads Python source without importing it. Every source reader in this project uses this package.

    environment   the modules that this environment has      tree          the modules of a folder or a wheel
    opening       a host or a plugin by name, folder, wheel  module        one module, parsed
    reading       what a module or a class binds             scope         the names that a body binds
    statements    reading a body, statement by statement     answers       exists, does not exist, or unsure
    namespaces    names bound by `:=`, globals(), setattr    conditions    what surely runs; guards of imports
    values        literals and constants                     lookup        following a name to its definition
    lazy          names that a `__getattr__` makes           imports       imports with their guards
    signatures    parameters, decorators                     constants     texts across modules

If the source does not show the answer, the result is `answers.Unsure` with the reason.
"""
