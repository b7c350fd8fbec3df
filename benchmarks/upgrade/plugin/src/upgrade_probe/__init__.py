"""Lines that depend on SGLang. A comment says by what, and where that stands in SGLang; nothing here is ever run."""
