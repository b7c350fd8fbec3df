"""Hooks on functions and classes of a host: registered by name, applied when the module exists, reported, undone.

`registry` is the public face; the other modules are its parts:

    registration  what one `register()` call leaves behind        targets     parsing and finding without importing
    existence     does the target exist, read from its source     finder      patches a module right after it ran
    engine        decides what is applied where, and when         place       where a target stands
    site, sites   a patched place, and all of them                lazy_names  names that a module makes on first use
    wrap          keeping a callable's kind                       compose     the generated frame of a stack of hooks
    signatures    can the hook take the target's arguments        failures    what is said about hooks not applied
    stale         `from X import Y` bindings                      references  dicts, defaults, partials, subclasses
    swaps         putting one object where another stood          report      rows for people and for programs
    source_scope  the names that a source binds                   static      the check of a host without importing it
"""
