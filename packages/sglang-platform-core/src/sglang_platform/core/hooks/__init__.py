"""Hooks on functions and classes of a host: registered by name, applied when the module exists, reported, undone.

`registry` is the public interface, `types` the record of each hook type. The terms below have one meaning in all
modules here:

    hook          a function or class of a plugin, with a type: BEFORE, AFTER, AROUND or REPLACE
    target        the function or class that a hook is registered for, by name: `pkg.mod:Class.attr` or
                  `pkg.mod.Class.attr`. It may be missing in the host
    key           the dotted name; the same for both spellings of a target
    address       a target whose module is known: the module and the attribute path in it
    place         a target in a loaded module: its owner, its name, and the raw attribute
    original      the attribute in the place before any hook
    site          a place with hooks on it. Aliases of one object in several modules share a site
    round         updates the places of some targets to match their registered hooks

    wrapper       the function installed over a hooked function; calls its hooks
    layer         a hook in a wrapper's stack, of any type but REPLACE; the first is innermost
    frame         the generated code of a wrapper
    substitute    the object installed in place of a class (or kernel), instead of a wrapper
    kind          how an attribute holds its function: plain, as a classmethod, a property and so on
    flavour       the kind of result of a call: a value, a coroutine, a generator or an async generator

    holder        any other object that refers to an original: a name bound by import, a dict, a default argument, a
                  subclass
    slot          one readable and writable reference in a holder
    swap          a request to replace every reference to an old object by a new one
    edit          a slot that a swap has changed; can be undone
    sweep         carries out the swaps of a round: finds the holders, changes their slots or reports them
    unreached     names of the holders that a sweep could not change

The folders:

    (here)        registering and reporting: `registry`, `registration`, `report`; `targets` resolves a name to its
                  place; `existence` checks in a module's source whether a target is missing, with the names that
                  `top_level` reads
    patching/     applying hooks and undoing them. `engine` keeps the hooks, `finder` reports executed modules,
                  `rounds` settles targets, `sites` and `site` change the attribute in a place
    call/         the call of a hooked target: `kinds` of callables, whether a hook fits (`fit`), the code of `frames`,
                  and the wrapper in `compose`
    references/   all other holders of an original: `sweep` runs first, `holders` searches the heap, `swaps` edits
"""
