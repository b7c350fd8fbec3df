"""The parts of the platform named on the command line, on SGLang's classes; `test_gpu_platforms.py` starts it."""

# ruff: noqa: C408, E402, E731, I001, PT018

from pkgutil import resolve_name
from types import SimpleNamespace
import os
import sys
import pytest
import torch
import sglang.srt.platforms as host
from sglang.srt.plugins import load_plugins
from sglang_platform.core import counter, current_platform as ours
from sglang_platform.core.sglang import served_model
from sglang_platform.core.errors import HostError, PlatformError
from sglang_platform.core.portable.triton.architecture import for_architecture
import sglang.srt.mem_cache.memory_pool as theirs
from sglang.srt.mem_cache.memory_pool import KVWriteLoc

name = sys.argv[1]
without_fp8 = {"cuda": "sm_80", "rocm": "gfx90a"}[name]
assert host.current_platform is ours and ours.device_name == name
assert (ours.is_cuda(), ours.is_rocm(), ours.is_out_of_tree()) == (name == "cuda", name == "rocm", False)


def built_with(dtype, kind, instead=None, **settled):
    """The class that SGLang's configurator settles on, as it asks while it builds pools for a launch."""
    from sglang.srt.mem_cache.kv_cache_configurator import KVCacheConfigurator

    configurator = object.__new__(KVCacheConfigurator)  # its constructor wants a loaded model
    known = dict(kv_cache_dtype=dtype, kv_shard_rank=None, mambaish_config=None, is_draft_worker=False)
    for name, value in {**known, **settled}.items():
        setattr(configurator, name, value)
    default = {"mha": theirs.MHATokenToKVPool, "mla": theirs.MLATokenToKVPool, "dsa": theirs.DSATokenToKVPool}
    return configurator._resolve_kv_pool_class(kind=kind, default=instead or default[kind])


# The rule: what the host always has stays the host's; the libraries it would run on are not installed here.
assert ours.get_graph_runner_cls() is None and ours.get_communicator_class() is None
allocator = ours.get_paged_allocator_cls()
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator

assert issubclass(allocator, PagedTokenToKVPoolAllocator)

fp8 = torch.float8_e4m3fn if name == "cuda" else torch.float8_e4m3fnuz
common = dict(
    size=64, page_size=16, layer_num=2, device="cpu", enable_memory_saver=False, start_layer=3, end_layer=4
)
stores, moves = counter("triton.kv_pool.stores"), counter("triton.kv_pool.moves")
layer = type("Layer", (), {"layer_id": 4})()
loc = torch.tensor([5, 79, 17])

with for_architecture(resolve_name(f"sglang_platform.{name}.kernels.tuning:ARCHITECTURES")[without_fp8]):
    load_plugins()  # the adapter's hooks, as in a worker
    cls = built_with(fp8, "mha")
    assert issubclass(cls, theirs.MHATokenToKVPool) and cls is not theirs.MHATokenToKVPool
    pool = cls(dtype=fp8, head_num=2, head_dim=16, **common)
    k, v = torch.randn(3, 2, 16).half(), torch.randn(3, 2, 16).half()
    kept, pool_of_8_bits = k.clone(), pool
    pool.set_kv_buffer(layer, KVWriteLoc(loc), k, v, torch.tensor([0.5]), 3.0)
    assert stores.value == 1, "our kernel must have served the host's call"
    assert torch.equal(k, kept)
    want = (v.float() / 3.0).clamp(-torch.finfo(fp8).max, torch.finfo(fp8).max).to(fp8)
    want_codes = want.view(torch.uint8)
    assert torch.equal(pool.get_value_buffer(4)[loc].view(torch.uint8), want_codes)
    assert torch.equal(pool.get_key_buffer(4)[loc].float(), (k.float() / 0.5).to(fp8).float())
    before = pool.get_key_buffer(4)[loc].clone()
    pool.move_kv_cache(torch.tensor([79, 5]), torch.tensor([5, 79]))
    assert moves.value == 1
    assert torch.equal(pool.get_key_buffer(4)[loc[[1, 0, 2]]].view(torch.uint8), before.view(torch.uint8))
    saved = pool.get_cpu_copy(loc)
    pool.load_cpu_copy(saved, torch.tensor([20, 21, 22]))
    assert torch.equal(
        pool.get_key_buffer(4)[20:23].view(torch.uint8), pool.get_key_buffer(4)[loc].view(torch.uint8)
    )
    assert len(pool.get_contiguous_buf_infos()[0]) == 4 and sum(pool.get_kv_size_bytes()) > 0

    # Where ours does nothing better, or would take a feature away, the very class of the host serves.
    assert built_with(torch.float16, "mha") is theirs.MHATokenToKVPool
    assert built_with(torch.bfloat16, "mla") is theirs.MLATokenToKVPool
    assert built_with(fp8, "dsa") is theirs.DSATokenToKVPool
    assert built_with(fp8, "mla") is not theirs.MLATokenToKVPool
    page_major = theirs.PageMajorMHATokenToKVPool
    assert built_with(fp8, "mha", page_major) is page_major
    for settled in ({"kv_shard_rank": 0}, {"mambaish_config": object()}, {"is_draft_worker": True}):
        assert built_with(fp8, "mha", **settled) is theirs.MHATokenToKVPool, settled
        assert built_with(fp8, "mla", **settled) is theirs.MLATokenToKVPool, settled

    os.environ["SGLANG_ENABLE_ASYNC_ASSERT"] = "1"
    assert built_with(fp8, "mha") is theirs.MHATokenToKVPool
    del os.environ["SGLANG_ENABLE_ASYNC_ASSERT"]
    served_model._served = served_model.ServedModel(server_args=SimpleNamespace(enable_torch_compile=True))
    assert built_with(fp8, "mha") is theirs.MHATokenToKVPool
    served_model._served = served_model.ServedModel()

    # The operator's word goes before, and is refused where the host could not use what it asks for.
    os.environ["SGLANG_PLATFORM_PARTS"] = "kv_pool=own"
    with pytest.raises(PlatformError, match="--enable-kv-cache-sharding"):
        built_with(fp8, "mha", kv_shard_rank=0)
    pool = built_with(torch.float16, "mha")(dtype=torch.float16, head_num=2, head_dim=16, **common)
    pool.set_kv_buffer(layer, loc, k, v)
    assert stores.value == 2 and torch.equal(pool.get_key_buffer(4)[loc], k)

    cls = built_with(torch.float16, "mla")
    assert issubclass(cls, theirs.MLATokenToKVPool) and cls is not theirs.MLATokenToKVPool
    pool = cls(dtype=torch.float16, kv_lora_rank=32, qk_rope_head_dim=8, dcp_replicated=True, **common)
    nope, rope = torch.randn(3, 1, 32).half(), torch.randn(3, 1, 8).half()
    pool.set_mla_kv_buffer(layer, KVWriteLoc(loc), nope, rope)
    assert stores.value == 3
    assert torch.equal(pool.get_key_buffer(4)[loc], torch.cat((nope, rope), -1))
    pool.set_kv_buffer(layer, loc, torch.cat((nope, rope), -1) * 2, None)
    assert stores.value == 4
    assert torch.equal(pool.get_key_buffer(4)[loc], torch.cat((nope, rope), -1) * 2)
    pool.move_kv_cache(torch.tensor([1]), loc[:1])
    assert moves.value == 2 and torch.equal(pool.get_key_buffer(4)[1], pool.get_key_buffer(4)[5])

    paged = allocator(64, page_size=16, dtype=torch.float16, device="cpu", kvcache=pool, need_sort=False)
    lens = lambda *values: torch.tensor(values)
    slots = paged.alloc_extend(lens(0, 0), lens(0, 0), lens(20, 3), lens(20, 3), lens(-1, -1), 23)
    assert slots.tolist() == [*range(16, 36), *range(48, 51)], slots
    step = paged.alloc_decode(lens(21, 4), lens(21, 4), slots[[19, 22]])
    assert step.tolist() == [36, 51] and paged.available_size() == 16
    assert counter("triton.paged_allocator.extends").value == 1
    assert counter("triton.paged_allocator.decodes").value == 1
    # Ops and attention: what the host offers out-of-tree platforms only is carried in.
    os.environ["SGLANG_PLATFORM_PARTS"] = "own,graph_runner=host"
    from sglang.srt.layers.layernorm import RMSNorm

    native = RMSNorm(64)
    ours.init_backend()
    calls = counter("triton.fused_ops.calls")
    x = torch.randn(3, 64)
    want = native.forward_native(x.clone())
    got = RMSNorm(64)(x)
    assert calls.value == 1, "our kernel must have served the host's op"
    torch.testing.assert_close(got, want)
    # What our kernel does not know runs as it would have without ours: fused with the store, say.
    odd = RMSNorm(64, var_hidden_size=32)
    assert odd.forward_native is not None
    torch.testing.assert_close(odd(x), odd.forward_native(x.clone()))
    assert calls.value == 1
    from sglang.srt.layers.rotary_embedding.base import RotaryEmbedding

    turned = object.__new__(RotaryEmbedding)  # its constructor wants vLLM on a machine without CUDA
    super(RotaryEmbedding, turned).__init__()
    turned.head_size, turned.is_neox_style, turned.cos_sin_cache = 16, True, torch.rand(32, 16)
    RotaryEmbedding.forward_native, kept = (
        (lambda *a, **k: ("the host's", a, k)),
        RotaryEmbedding.forward_native,
    )
    fused = turned(
        torch.arange(3), torch.randn(3, 32), torch.randn(3, 16), fused_set_kv_buffer_arg="an argument"
    )
    RotaryEmbedding.forward_native = kept
    assert fused[0] == "the host's" and fused[2] == {"fused_set_kv_buffer_arg": "an argument"}
    assert calls.value == 1
    turned(torch.arange(3), torch.randn(3, 32), torch.randn(3, 16))
    assert calls.value == 2
    # Positions and store in one launch, in the very words of SGLang's models: on CUDA over a pool that needs no cast,
    # on ROCm over our own too, with scales. That CPU tensors stand for the device is said to its gate.
    import sglang.srt.models.utils as models

    setattr(models, "_is_cuda" if name == "cuda" else "_is_hip", True)
    kept_in, step = pool_of_8_bits, SimpleNamespace(out_cache_loc=loc)
    models.get_token_to_kv_pool = lambda: kept_in
    assert models.enable_fused_set_kv_buffer(step) is (name == "rocm")
    if name == "cuda":
        kept_in = theirs.MHATokenToKVPool(dtype=torch.bfloat16, head_num=2, head_dim=16, **common)
        assert models.enable_fused_set_kv_buffer(step)
        kept_in = theirs.MHATokenToKVPool(dtype=torch.float16, head_num=2, head_dim=16, **common)
    scale = torch.tensor([0.5]) if name == "rocm" else None
    attends = SimpleNamespace(
        layer_id=4, tp_k_head_num=2, qk_head_dim=16, tp_v_head_num=2, v_head_dim=16, sliding_window_size=-1,
        k_scale=scale, v_scale=scale,
    )  # fmt: skip
    query, key, value = torch.randn(3, 128).half().split((64, 32, 32), dim=1)
    wanted = turned(torch.arange(3), query.clone(), key.clone())
    asked = models.create_fused_set_kv_buffer_arg(value, attends, step)
    turned(torch.arange(3), query, key, fused_set_kv_buffer_arg=asked)
    assert calls.value == 4 and counter("triton.fused_ops.stores").value == 1
    assert torch.equal(query, wanted[0]) and torch.equal(key, wanted[1])
    for buffer, new in ((kept_in.get_key_buffer(4), key), (kept_in.get_value_buffer(4), value)):
        stored = (new.float() / (1.0 if scale is None else 0.5)).to(buffer.dtype)
        assert torch.equal(buffer[loc].float(), stored.float().view(3, 2, 16))
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.layers.attention.base_attn_backend import AttentionBackend

    assert issubclass(ATTENTION_BACKENDS["sglang_platform_" + name], AttentionBackend)
    # What the host's pools are, its own classes say: windows with slots of their own, latent rows, packed or not.
    from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

    os.environ.pop("SGLANG_PLATFORM_PARTS")
    windows = SWAKVPool(
        size=64, size_swa=32, page_size=16, dtype=fp8, head_num=2, head_dim=16, device="cpu",
        swa_attention_layer_ids=[1], full_attention_layer_ids=[0], enable_memory_saver=False,
        token_to_kv_pool_class=built_with(fp8, "mha"),
    )  # fmt: skip
    windows.full_to_swa_index_mapping = torch.arange(80)
    first = stores.value
    in_window = KVWriteLoc(loc, torch.tensor([3, 4, 5]))
    windows.set_kv_buffer(SimpleNamespace(layer_id=1), in_window, k, v, torch.tensor([0.5]), 3.0)
    windows.set_kv_buffer(SimpleNamespace(layer_id=0), in_window, k, v, torch.tensor([0.5]), 3.0)
    assert stores.value == first + 2, "our kernel must have served both pools"
    for layer_id, where in ((0, loc), (1, torch.tensor([3, 4, 5]))):
        assert torch.equal(windows.get_value_buffer(layer_id)[where].view(torch.uint8), want_codes)
    build = ATTENTION_BACKENDS["sglang_platform_" + name]
    table = SimpleNamespace(req_to_token=torch.zeros(2, 8, dtype=torch.int32))
    runner = lambda pool: SimpleNamespace(token_to_kv_pool=pool, req_to_token_pool=table, device="cpu")
    with pytest.raises(PlatformError, match="disable-hybrid-swa-memory"):
        build(runner(windows))
    from sglang_platform.core import AttentionBackend as CoreBackend
    from sglang_platform.core.sglang.parts import rebase_attention_backend

    plain = rebase_attention_backend(type("Plain", (CoreBackend,), {}), None)(runner(windows))
    assert plain._window_layers() == {0: (0, False), 1: (0, True)} and plain._latent_rows() is None
    decode = SimpleNamespace(is_decode=lambda: True)
    step = SimpleNamespace(forward_mode=decode, out_cache_loc=loc)
    assert plain.slot_map(SimpleNamespace(layer_id=0), step) is None
    assert plain.slot_map(SimpleNamespace(layer_id=1), step) is windows.full_to_swa_index_mapping
    place = plain.write_location(SimpleNamespace(layer_id=1), step)
    assert isinstance(place, KVWriteLoc) and place.loc is loc and torch.equal(place.swa_loc, loc)
    assert plain.write_location(SimpleNamespace(layer_id=0), step) is loc
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    ends = [plain.shared_read_ends(mode).name for mode in (ForwardMode.DECODE, ForwardMode.EXTEND)]
    assert ends == ["POST_REPLAY", "UNKNOWN"]
    latent = theirs.MLATokenToKVPool(
        dtype=torch.float16, kv_lora_rank=32, qk_rope_head_dim=8, dcp_replicated=True, **common
    )
    ours_on_latent = build(runner(latent))
    assert ours_on_latent._window_layers() is None
    assert (ours_on_latent._latent.pool, ours_on_latent._latent.packed) == (latent, False)
    with pytest.raises(HostError, match="leave out --attention-backend"):
        ours_on_latent.get_indexer_metadata(4, step)

    os.environ["SGLANG_PLATFORM_PARTS"] = "attention=own"
    arguments = type("Arguments", (), {"attention_backend": "the host's", "_raw_input": {}})()
    ours.apply_server_args_defaults(arguments)
    assert arguments.attention_backend == "sglang_platform_" + name
    del os.environ["SGLANG_PLATFORM_PARTS"]
    arguments = type("Arguments", (), {"attention_backend": "the host's", "_raw_input": {}})()
    ours.apply_server_args_defaults(arguments)
    assert arguments.attention_backend == "triton", "the host's own default needs a library that is not here"
print("served by our kernels")
