"""Hooks on functions and classes of a host: registered by name, applied when the module exists, reported, undone.

`registry` is the public face, `types` the record of each hook type. The words, each with one meaning in all modules
here:

    hook          a function or class of a plugin, with a type: BEFORE, AFTER, AROUND or REPLACE
    target        the function or class that a hook is registered on, by name: `pkg.mod:Class.attr` or
                  `pkg.mod.Class.attr`. It may not exist
    key           the dotted name; the same for both spellings of a target
    address       a target whose module is known: module and path in it
    place         a target in a loaded module: owner, name, and the attribute as it is there
    original      the attribute in the place before any hook
    site          a place with hooks on it. Names of one object in several modules share a site
    round         makes the places of some targets agree with their hooks

    wrapper       the function that takes the place of a hooked function and calls its hooks
    layer         a hook in a wrapper's stack, of any type but REPLACE; the first is innermost
    frame         the generated code of a wrapper
    substitute    the object that takes the place of a class: another object, by identity
    kind          how an attribute gives its function: as itself, as a classmethod, a property and so on
    flavour       the result of a function's call: a value, a coroutine, a generator or an async generator

    holder        any other object that refers to an original: a name bound by import, a dict, a default argument, a
                  subclass
    slot          one spot in a holder that can be read and set
    swap          an order to put a new object wherever an old one is held
    edit          a slot that a swap has changed, to be undone
    sweep         carries out the swaps of a round: finds the holders, changes their slots or reports them
    unreached     holders that a sweep could not change, by name

The rooms:

    (here)        registering and reporting: `registry`, `registration`, `report`, `targets` from a name to its place,
                  and `existence`, which tells from a module's source whether a target exists: `top_level` reads its
                  names
    patching/     applying hooks and undoing them. `engine` keeps the hooks, `finder` brings the news of modules,
                  `rounds` settles targets, `sites` and `site` change the attribute in a place
    call/         the call of a hooked target: `kinds` of callables, whether a hook fits (`fit`), the code of `frames`,
                  and the wrapper in `compose`
    references/   all other holders of an original: `sweep`, then `holders`; `swaps`
"""
