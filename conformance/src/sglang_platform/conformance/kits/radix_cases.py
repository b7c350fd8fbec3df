"""The cases of SGLang's kit for its cache of prefixes (`sglang.test.kits.unified_radix_cache`), without a model.

The kit builds a tree, an allocator and pools for each of its configurations on the device of the process; its tables of
tests are not in the wheel and stand here. Imported only in a process of the host that has the kit.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.unified_cache.components.base import ComponentType
from sglang.test.kits.unified_radix_cache.config import CONFIGS, CacheConfig
from sglang.test.kits.unified_radix_cache.fixtures import build_fixture, match_prefix, node_device_value
from sglang.test.kits.unified_radix_cache.mixins import UnifiedRadixCacheFixtures

__all__ = ["radix_cases"]


class _Cache(UnifiedRadixCacheFixtures, unittest.TestCase):
    """One tree of the kit, and what its tests insert."""

    def __init__(self, cfg: CacheConfig) -> None:
        super().__init__()
        self.cfg = cfg

    def build(self) -> tuple[Any, Any, Any]:
        return build_fixture(self.cfg)

    def prefix_is_found(self) -> None:
        """What was inserted is found again, as far as another text goes with it."""
        tree, allocator, table = self.build()
        text = self._make_seq(1, 4)
        self._insert(tree, allocator, table, text)
        page = self.cfg.page_size
        other = text[: 2 * page] + self._make_seq(9000, 2)
        assert len(self._slots(tree, other)) == self._kept(2 * page)
        assert len(self._slots(tree, text)) == 4 * page

    def branches_share_their_slots(self) -> None:
        """Two texts with one beginning have the same slots for it, with the values that were stored."""
        tree, allocator, table = self.build()
        common = self._make_seq(1, 2)
        first, second = common + self._make_seq(3000, 2), common + self._make_seq(6000, 2)
        self._insert(tree, allocator, table, first)
        slots = self._slots(tree, first)
        self._fill_full_kv(allocator, slots, 3)
        self._insert(tree, allocator, table, second)
        shared = self._slots(tree, second)[: len(common)]
        assert shared == slots[: len(common)]
        keys, values = self._snapshot_full_kv(allocator, shared)
        assert torch.equal(keys, torch.full_like(keys, 3))
        assert torch.equal(values, torch.full_like(values, 4))

    def evicted_slots_come_back(self) -> None:
        """Eviction of everything gives the allocator all that it had."""
        tree, allocator, table = self.build()
        before = allocator.available_size()
        self._insert(tree, allocator, table, self._make_seq(1, 4))
        assert allocator.available_size() < before
        size = self.cfg.kv_size
        tree.evict(EvictParams(num_tokens=size, swa_num_tokens=size, mamba_num=size))
        assert allocator.available_size() == before
        assert self._slots(tree, self._make_seq(1, 4)) == []

    def _slots(self, tree: Any, tokens: list[int]) -> list[int]:
        """The slots of what is found of a text."""
        chain = self._path_chain(tree, match_prefix(tree, tokens).last_device_node)
        return [slot for node in chain for slot in node_device_value(tree, node, ComponentType.FULL).tolist()]

    def _kept(self, tokens: int) -> int:
        """Tokens that a match of a beginning gives: none with a recurrent state, which is kept at a text's end."""
        return 0 if self.cfg.has_mamba else tokens


def radix_cases() -> Iterator[tuple[str, Callable[..., None]]]:
    """Name and function of each case. The device is that of the process, whatever it is told."""
    for cfg in CONFIGS:
        for test in ("prefix_is_found", "branches_share_their_slots", "evicted_slots_come_back"):
            yield f"{test}({cfg.label})", partial(_run, cfg, test)


def _run(cfg: CacheConfig, test: str, testcase: Any, **device: Any) -> None:
    case = _Cache(cfg)
    try:
        getattr(case, test)()
    finally:
        case.doCleanups()
