"""Whatever else holds a hooked object: names bound from its module, dicts, defaults, partials, subclasses."""
