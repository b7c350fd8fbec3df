"""Platforms that do to their process what a real one may do."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from sglang_platform.conformance.reference.platform import ReferencePlatform


class Crashes(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        ctypes.string_at(0)


class Hangs(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        time.sleep(600)


class Raises(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        return {}["no such block size"]


class Exits(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        raise SystemExit("the driver is too old")


class Talks(ReferencePlatform):
    def get_paged_allocator_cls(self) -> Any:
        print("driver 3.1 loaded")
        return super().get_paged_allocator_cls()


class WrongInHalf(ReferencePlatform):
    """Its pools store zeros where they are of float16, and end the process where that meets pages of 16."""

    _ends_with = 0

    def get_kv_pool_cls(self, *, kind: str) -> Any:
        base: Any = super().get_kv_pool_cls(kind=kind)
        ends = self._ends_with

        class Pool(base):  # type: ignore[misc]
            def _write(self, buffer: Any, loc: Any, rows: Any) -> None:
                if str(self.dtype) == "torch.float16":
                    if self.page_size == ends:
                        ctypes.string_at(0)
                    rows = rows * 0
                super()._write(buffer, loc, rows)

        return Pool


class WrongInHalfAndCrashes(WrongInHalf):
    _ends_with = 16


class WrongInOneCombination(ReferencePlatform):
    """Its pools store zeros in bfloat16, where heads of 24 numbers meet pages of 16."""

    def get_kv_pool_cls(self, *, kind: str) -> Any:
        base: Any = super().get_kv_pool_cls(kind=kind)

        class Pool(base):  # type: ignore[misc]
            def _write(self, buffer: Any, loc: Any, rows: Any) -> None:
                if (str(self.dtype), self.page_size, rows.shape[-1]) == ("torch.bfloat16", 16, 24):
                    rows = rows * 0
                super()._write(buffer, loc, rows)

        return Pool


class WrongAtOneShape(ReferencePlatform):
    """Its attention is wrong for 13 query heads over one key head of 72 numbers, which no model that is served has."""

    def get_attention_backends(self) -> Any:
        (base,) = super().get_attention_backends().values()

        class Attention(base):  # type: ignore[misc, valid-type]
            def _forward(self, q: Any, k: Any, v: Any, layer: Any, *args: Any) -> Any:
                out = super()._forward(q, k, v, layer, *args)
                return out * 1.5 if (layer.tp_q_head_num, layer.qk_head_dim) == (13, 72) else out

        return {self.get_default_attention_backend(): Attention}


class NoWindows(ReferencePlatform):
    attention_features = ("mha", "gqa", "mqa", "logit_cap")


class RoughInBfloat16(ReferencePlatform):
    """Its attention in bfloat16 is off by an eighth."""

    def get_attention_backends(self) -> Any:
        (base,) = super().get_attention_backends().values()

        class Attention(base):  # type: ignore[misc, valid-type]
            def _forward(self, *args: Any) -> Any:
                out = super()._forward(*args)
                return out * (1 + 1 / 8) if str(out.dtype) == "torch.bfloat16" else out

        return {self.get_default_attention_backend(): Attention}
