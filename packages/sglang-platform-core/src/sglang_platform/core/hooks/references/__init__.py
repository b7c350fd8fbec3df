"""Whatever else holds a patched object: names bound from its module, dicts, defaults, partials, subclasses."""
