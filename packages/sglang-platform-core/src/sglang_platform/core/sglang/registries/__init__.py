"""The registries of core, connected to the places in SGLang that use them."""
