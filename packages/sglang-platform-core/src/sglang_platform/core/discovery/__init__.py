"""From the metadata of installed distributions to the platform of this process.

    metadata    `scan` finds the entry points; `distribution` reads one distribution's; `groups` names the groups
    decision    `resolve` has the rules: it reads `settings`, asks each plugin (`asking`, `contract_version`), keeps the
                `trace`, and raises the errors of `refusals`. `kind` says what differs between the two runtimes
    platform    `instance` makes the object; `process` holds choice, decision and object under one lock; `lazy` is the
                object itself, and `current` the module that everybody imports it from

`entry` is the decorator of `activate()`, by which SGLang gets the same answer. `host_first` imports SGLang before a
plugin that imports it. `by_device` finds the platform of another device.
"""
