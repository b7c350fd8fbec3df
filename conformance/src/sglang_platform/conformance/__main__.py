"""`python -m sglang_platform.conformance` is `sglang-platform conformance`."""

from __future__ import annotations

from sglang_platform.conformance.cli import app

if __name__ == "__main__":
    app(prog_name="sglang-platform conformance")
