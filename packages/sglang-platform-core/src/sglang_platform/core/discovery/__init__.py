"""Finds the platform of this process from the metadata of installed distributions.

    metadata    `scan` finds the entry points; `distribution` reads those of one distribution; `groups` names the groups
    decision    `resolve` has the rules: it reads `settings`, asks each plugin (`asking`, `contract_version`), keeps the
                `trace`, and raises the errors of `refusals`. `kind` lists the differences between the two runtimes
    platform    `instance` creates the object; `process` holds choice, decision and object under one lock; `lazy` is
                the lazy object, and `current` the public module to import it from

`entry` decorates `activate()`, so that SGLang gets the same answer. `host_first` imports SGLang before a plugin that
imports it.
"""
