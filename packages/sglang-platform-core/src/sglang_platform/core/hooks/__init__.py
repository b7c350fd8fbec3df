"""Hooks on functions and classes of a host: registered by name, applied when the module exists, reported, undone.

`registry` is the public face; the other modules are its parts:

    registration  what one `register()` call leaves behind        targets    parsing and finding without importing
    existence     does the target exist, read from its source     finder     patches a module right after it ran
    engine        decides what is applied where, and when         site       one patched place
    wrap          keeping a callable's kind                       compose    the generated frame of a stack of hooks
    signatures    can the hook take the target's arguments        stale      `from X import Y` bindings
    references    dicts, defaults, partials, subclasses           report     rows for people and for programs
"""
