"""`python -m sglang_platform.conformance` is `sglang-platform conformance`."""

from __future__ import annotations

from sglang_platform.core.cli import own_faults_told

if __name__ == "__main__":
    with own_faults_told():
        from sglang_platform.conformance.cli import app

        app(prog_name="sglang-platform conformance")
