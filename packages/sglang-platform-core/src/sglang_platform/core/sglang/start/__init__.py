"""From `activate()` to a served platform: the platform class, the general plugin, and the order of all hooks."""
