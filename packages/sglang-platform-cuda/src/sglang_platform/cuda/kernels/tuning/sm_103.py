"""B300: as B200 until one is measured."""

from __future__ import annotations

from dataclasses import replace

from sglang_platform.cuda.kernels.tuning import sm_100

__all__ = ["RECORD"]

RECORD = replace(sm_100.RECORD, name="sm_103", arch=103, stands_in_for=())
