"""The adapter against the installed SGLang: classes re-based, answers translated. No engine is started."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.host


def _in_host(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process that has imported SGLang on the example platform."""
    prelude = "import sglang.srt.platforms as host\nfrom sglang_platform.core import current_platform as ours\n"
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", prelude + textwrap.dedent(code)],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def _check(code: str) -> str:
    run = _in_host(code)
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def test_platform_and_parts_are_the_hosts_and_the_vendors() -> None:
    _check(
        """
        theirs = host.current_platform
        assert theirs is ours, (theirs, ours)
        from sglang.srt.platforms.interface import PlatformCapabilities, SRTPlatform
        from sglang_platform.example_oot.platform import ExampleOOTPlatform
        assert isinstance(ours, SRTPlatform) and isinstance(ours, ExampleOOTPlatform)
        assert isinstance(ours.capabilities, PlatformCapabilities) and ours.capabilities.graph_capture
        assert ours.capabilities.fp8 is False  # core's own field, kept beside the host's
        assert ours.is_out_of_tree() and not ours.is_cuda_alike()
        assert ours.get_device(None) == "cpu"

        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
        from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool
        pool = ours.get_kv_pool_cls(kind="mha")
        assert issubclass(pool, MHATokenToKVPool) and issubclass(pool, ExampleOOTMHAPool)
        assert ours.get_kv_pool_cls(kind="mha") is pool
        assert ours.get_kv_pool_cls(kind="mla") is None

        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        assert issubclass(ours.get_paged_allocator_cls(), PagedTokenToKVPoolAllocator)

        ours.init_backend()
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
        assert issubclass(ATTENTION_BACKENDS["example_oot"], AttentionBackend)
        from sglang.kernels.fused_op import BaseFusedOp
        assert {c.__name__ for c in BaseFusedOp._oot_forward_registry["example_oot"]} == {
            "RMSNorm", "SiluAndMul", "RotaryEmbedding", "UnquantizedFusedMoEMethod"}
        """
    )


def test_core_touched_before_the_host_gives_the_same_object() -> None:
    code = """
    from sglang_platform.core import current_platform as ours
    assert ours.device_name == "example_oot" and "sglang" not in sys.modules
    before = type(ours)
    import sglang.srt.platforms as host
    assert host.current_platform is ours
    from sglang.srt.platforms.interface import SRTPlatform
    assert isinstance(ours, SRTPlatform) and isinstance(ours, before)
    """
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import sys\n" + textwrap.dedent(code)],
        env={**os.environ, "SGLANG_PLATFORM": "example_oot"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]


def test_a_host_pool_built_with_the_hosts_keywords_stores_through_the_vendor() -> None:
    _check(
        """
        import torch
        from types import SimpleNamespace
        from sglang_platform.core.counters import snapshot
        pool = ours.get_kv_pool_cls(kind="mha")(
            size=64, page_size=16, dtype=torch.float32, head_num=2, head_dim=8, layer_num=3, device="cpu",
            enable_memory_saver=False, start_layer=4, end_layer=6)
        loc = torch.tensor([17, 40, 79])
        k, v = torch.randn(3, 2, 8), torch.randn(3, 2, 8)
        pool.set_kv_buffer(SimpleNamespace(layer_id=5), loc, k, v)
        assert torch.equal(pool.get_key_buffer(5)[loc], k) and torch.equal(pool.get_value_buffer(5)[loc], v)
        assert not pool.get_key_buffer(4).any() and not pool.get_key_buffer(6).any()
        assert snapshot()["example_oot.kv_pool.stores"] == 1
        ptrs, lens, item_lens = pool.get_contiguous_buf_infos()  # descriptors the vendor did not have to build
        assert len(ptrs) == 6 and lens[0] == 80 * 2 * 8 * 4 and item_lens[0] == 16 * 2 * 8 * 4
        assert pool.get_kv_size_bytes() == (3 * 80 * 2 * 8 * 4,) * 2
        """
    )


def test_a_factory_that_answers_something_else_is_refused_by_name() -> None:
    run = _in_host(
        """
        from sglang_platform.core.hosts.sglang.parts import rebase_pool
        from sglang_platform.core.errors import PluginOrigin
        rebase_pool(dict, "mha", PluginOrigin("my_device", "my-dist", "1.2"))
        """
    )
    assert run.returncode == 1
    for part in ("get_kv_pool_cls(kind='mha') answered <class 'dict'>", "my_device (my-dist 1.2)", "fix:"):
        assert part in run.stderr


def test_the_operators_attention_backend_is_kept() -> None:
    _check(
        """
        from types import SimpleNamespace
        from sglang_platform.core.hosts.sglang.server_args import choose_attention_backend
        def args(**raw):
            return SimpleNamespace(attention_backend="filled-in", _raw_input=raw)
        asked = args(attention_backend="torch_native")
        choose_attention_backend(asked, "ours")
        assert asked.attention_backend == "filled-in"  # left alone: the operator's own word stands in the raw input
        silent = args(attention_backend=None)
        choose_attention_backend(silent, "ours")
        assert silent.attention_backend == "ours"
        """
    )
