"""The kind of the plugin's pools, as the contract, the adapter and the conformance suite are told of it."""

from __future__ import annotations

from sglang_platform.core.registries import PoolKind

__all__ = ["KIND"]

KIND = PoolKind(
    name="v4_token",
    row="the row of mla; those of all layers of a token side by side",
    base="sglang_platform.core.memory.mla:MLATokenToKVPool",
    keywords=("kv_lora_rank", "qk_rope_head_dim"),
    host_class="MLATokenToKVPool",
    fixture="sglang_platform.conformance.fixtures.pool_kinds:MLAFixture",
    reference="deepseek_v4_plugin.token_pool:V4TokenPool",
)
"""What the contract knows of it: nothing in core names it."""
