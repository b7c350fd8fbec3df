"""Hooks on functions and classes of a host: registered by name, applied when the module exists, reported, undone.

`registry` is the public face. The words, each with one meaning in all modules here:

    hook          a function or class of a plugin, with a type: BEFORE, AFTER, AROUND or REPLACE
    target        what a hook is registered on, by name: `pkg.mod:Class.attr` or `pkg.mod.Class.attr`. It may not exist
    key           the dotted name; the same for both spellings of a target
    address       a target whose module is known: module and path in it
    place         where a target stands in a loaded module: owner, name, and the attribute as it is there
    original      what stood in the place before any hook
    site          a place with hooks on it. Names of one object in several modules share a site
    round         makes what stands in the places of some targets agree with their hooks

    wrapper       the function that stands in the place of a hooked function and calls its hooks
    layer         a BEFORE, AFTER or AROUND hook in a wrapper's stack; the first is innermost
    frame         the generated code of a wrapper
    substitute    what stands in the place of a class: another object, by identity
    kind          how an attribute gives its function: as itself, as a classmethod, a property and so on
    flavour       what a call of a function gives: its result, a coroutine, a generator or an async generator

    holder        whatever else refers to an original: a name bound by import, a dict, a default argument, a subclass
    slot          one spot in a holder that can be read and set
    swap          an order to put a new object wherever an old one is held
    edit          a slot that a swap has changed, to be undone
    sweep         carries out the swaps of a round: finds the holders, changes their slots or reports them
    unreached     holders that a sweep had to leave, by name

The rooms:

    (here)        registering and reporting: `registry`, `registration`, `report`, `targets`, and `existence`, which
                  tells from its source whether a target exists: `top_level` reads the names of a module
    patching/     putting hooks in force and taking them back. `engine` keeps the hooks, `finder` brings the news of
                  modules, `rounds` settles targets, `place` finds them, `site` and `sites` change what stands there
    call/         what happens in a call: `kinds`, `frames` and the `declaration` of their parameters, the wrapper in
                  `compose`, and which hooks fit (`refusals`, `signatures`)
    references/   everybody else who holds an original: `sweep`, then `holders` by way of the `heap`; `swaps`
"""
