"""The adapter against the installed SGLang: classes re-based, answers translated. No engine is started."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from sglang_platform.core.hosts.sglang.seams.server_args import choose_attention_backend

pytestmark = pytest.mark.host

# The example under torch's own device type, so that pools can be built without its device library.
_EXAMPLE = {"SGLANG_PLATFORM": "example_oot", "SGLANG_EXAMPLE_OOT_DEVICE": "cpu"}


def _in_host(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process that has imported SGLang on the example platform."""
    prelude = (
        "import sglang.srt.platforms as host\nfrom sglang_platform.core import current_platform as ours\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", prelude + textwrap.dedent(code)],
        env={**os.environ, **_EXAMPLE, **environment},
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
        assert ours.capabilities.fp8 is True  # core's own field, kept beside the host's
        assert ours.is_out_of_tree() and not ours.is_cuda_alike()
        assert ours.get_device(None) == ours.device_type

        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
        from sglang_platform.example_oot.kv_pools import ExampleOOTMHAPool
        pool = ours.get_kv_pool_cls(kind="mha")
        assert issubclass(pool, MHATokenToKVPool) and issubclass(pool, ExampleOOTMHAPool)
        assert ours.get_kv_pool_cls(kind="mha") is pool
        from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool
        mla = ours.get_kv_pool_cls(kind="mla")
        assert mla is None or issubclass(mla, MLATokenToKVPool)

        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        assert issubclass(ours.get_paged_allocator_cls(), PagedTokenToKVPoolAllocator)

        ours.init_backend()
        from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
        from sglang.srt.layers.attention.base_attn_backend import AttentionBackend
        assert issubclass(ATTENTION_BACKENDS["example_oot"], AttentionBackend)
        from sglang.kernels.fused_op import BaseFusedOp
        assert {c.__name__ for c in BaseFusedOp._oot_forward_registry["example_oot"]} >= {
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
        env={**os.environ, **_EXAMPLE},
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


def test_a_kind_of_pool_that_a_platform_lacks_is_refused_only_when_it_is_built() -> None:
    _check(
        """
        from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool
        from sglang_platform.core.errors import HostError
        from sglang_platform.example_oot.platform import ExampleOOTPlatform

        def lacking(self, *, kind):
            raise NotImplementedError("no MLA on this device")

        ExampleOOTPlatform.get_kv_pool_cls = lacking
        pool = ours.get_kv_pool_cls(kind="mla")
        assert issubclass(pool, MLATokenToKVPool)
        try:
            pool(size=64, page_size=16)
        except HostError as error:
            assert "kind 'mla'" in str(error) and "no MLA on this device" in str(error), error
            assert error.plugin.name == "example_oot"
        else:
            raise AssertionError("built")
        """
    )


def test_other_kinds_of_pool_are_rebased_and_what_is_no_pool_is_refused_by_name() -> None:
    _check(
        """
        import torch
        from types import SimpleNamespace
        import sglang.srt.mem_cache.memory_pool as host_pools
        from sglang_platform.core import DSATokenToKVPool, MLATokenToKVPool
        from sglang_platform.core.errors import HostError, PluginOrigin
        from sglang_platform.core.hosts.sglang.srt.parts import rebase_pool

        origin = PluginOrigin("my_device", "my-dist", "1.2")
        created = []
        class MyMLA(MLATokenToKVPool):
            def _create_buffers(self):
                created.append(self.kv_lora_rank)
                super()._create_buffers()
        class MyDSA(DSATokenToKVPool):
            pass
        mla, dsa = rebase_pool(MyMLA, "mla", origin), rebase_pool(MyDSA, "dsa", origin)
        assert issubclass(mla, host_pools.MLATokenToKVPool) and issubclass(dsa, host_pools.DSATokenToKVPool)
        pool = mla(size=64, page_size=16, dtype=torch.float32, kv_lora_rank=8, qk_rope_head_dim=4, layer_num=2,
                   device="cpu", enable_memory_saver=False)
        assert created == [8] and len(pool.kv_buffer) == 2
        from sglang.srt.runtime_context import get_parallel
        rows = torch.randn(2, 1, 12)
        with get_parallel().override(dcp_enabled=False, attn_dcp_size=1):  # what an engine publishes before it stores
            pool.set_kv_buffer(SimpleNamespace(layer_id=1), torch.tensor([3, 70]), rows, rows[..., :8])
        assert torch.equal(pool.get_key_buffer(1)[[3, 70]], rows)

        try:
            rebase_pool(dict, "mha", origin)
        except HostError as error:
            for part in ("get_kv_pool_cls(kind='mha') answered <class 'dict'>", "my_device (my-dist 1.2)", "fix:"):
                assert part in str(error), error
        else:
            raise AssertionError("dict was taken for a pool")
        """
    )


def test_the_operators_attention_backend_is_kept() -> None:
    asked = SimpleNamespace(attention_backend="filled-in", _raw_input={"attention_backend": "torch_native"})
    choose_attention_backend(asked, "ours")
    assert asked.attention_backend == "filled-in"
    silent = SimpleNamespace(attention_backend="filled-in", _raw_input={"attention_backend": None})
    choose_attention_backend(silent, "ours")
    assert silent.attention_backend == "ours"
