"""Where SGLang does not ask the platform: each file carries one answer or feature in by hooks."""
