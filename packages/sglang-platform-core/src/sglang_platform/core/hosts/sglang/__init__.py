"""The adapter to SGLang. Imported only in a process that runs SGLang."""

from __future__ import annotations

from sglang_platform.core.hosts.sglang.srt.adapter import ADAPTER

__all__ = ["ADAPTER"]
