"""Follows a plugin's control flow for one release of the host: which lines run, and which of them fail.

The plugin is evaluated from its source and never run. Versions, `hasattr`, `find_spec`, flags and helper functions of
the plugin have values here; a condition without a value has two branches. Each class extends the one before it.

    values      what a name may stand for            handlers     `raise`, `try`, `with`
    host        the answers of the release           definitions  classes, decorators
    library     builtins and the standard library    statements   order, branches, loops; `ends`
    evaluation  what all parts share                 functions    what a call of the plugin's function returns
    operators   comparisons, `and`, sums, indices    imports      modules of the host and of the plugin
    calls       calls, attributes of objects         changes      hooks and patches of the host
    expressions the value of an expression           program      a whole plugin, and the results
    guards      which exceptions a handler takes     mentions     the names that the plugin sets or reads
"""
