"""Prints which SGLang this environment has, without importing it, and what the adapter takes it for; then the log."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import logging

from sglang_platform.core.sglang.versions import facts

logging.basicConfig(level=logging.WARNING)
found = importlib.util.find_spec("sglang")
told = facts()
print(
    json.dumps(
        {
            "origin": found.origin if found else None,
            "version": importlib.metadata.version("sglang"),
            "facts_of": told.version,
            "finished_arguments": told.finished_arguments,
        }
    )
)
