"""Follows a plugin's control flow for one release of the host: which lines run, and which of them fail.

The plugin is evaluated from its source and never run. Versions, `hasattr`, `find_spec`, flags and helper functions of
the plugin have values here; a condition without a value has two branches.

    values      what a name may stand for                host         the answers of the release
    guards      handlers of `try` and `with`             library      calls of builtins and the standard library
    matching    the patterns of `match`                  expressions  the value of an expression
    statements  the order of statements                  program      all modules of a plugin, and the results
"""
