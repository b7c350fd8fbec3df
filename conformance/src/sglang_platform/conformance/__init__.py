"""The conformance suite for SGLang hardware platforms."""
