"""Other references to a hooked object: imported names, dicts, default arguments, partials, subclasses."""
