"""One platform on every supported SGLang: what is checked in each version's environment, and the matrix made of it."""
