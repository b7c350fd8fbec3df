"""`docs/examples/deepseek-v4-plugin` without an engine: its switches, its format, its parts, and what they refuse."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

SOURCE = Path(__file__).parents[4] / "docs" / "examples" / "deepseek-v4-plugin" / "src"
sys.path.insert(0, str(SOURCE))

import deepseek_v4_plugin as plugin  # noqa: E402
from deepseek_v4_plugin.coordinator import PageCoordinator  # noqa: E402
from deepseek_v4_plugin.expert_split import ExpertSplit  # noqa: E402
from deepseek_v4_plugin.hierarchical_pool import HierarchicalPool  # noqa: E402
from deepseek_v4_plugin.hot_pages import HotPages  # noqa: E402
from deepseek_v4_plugin.mxfp4 import BLOCK, dequantise, quantise  # noqa: E402
from deepseek_v4_plugin.mxfp4_experts import MXFP4Experts  # noqa: E402
from deepseek_v4_plugin.page_follower import FOLLOWER, PageFollower  # noqa: E402
from deepseek_v4_plugin.pool_kind import KIND  # noqa: E402
from deepseek_v4_plugin.tags import HIERARCHICAL_POOL, TOKEN_POOL, has_tag  # noqa: E402
from deepseek_v4_plugin.token_pool import V4TokenPool  # noqa: E402

from sglang_platform.core import AttentionBackend, MLATokenToKVPool  # noqa: E402
from sglang_platform.core.contract.pool_kinds import KINDS  # noqa: E402
from sglang_platform.core.contract.types import kv_pool_kind  # noqa: E402
from sglang_platform.core.errors import ConfigurationError, PlatformError  # noqa: E402
from sglang_platform.core.registries import (  # noqa: E402
    coordinators,
    events,
    is_wrapped,
    models,
    pools,
    quant,
    register_forward_hook,
    register_quant_wrapper,
)
from sglang_platform.core.registries.registry import RegistryError  # noqa: E402

SWITCHES = {
    "DSV4_MODEL": "1",
    "DSV4_MXFP4": "1",
    "DSV4_HOST_EXPERTS": "2",
    "DSV4_TOKEN_POOL": "1",
    "DSV4_HOT_PAGES": "5",
    "DSV4_EVENTS": "1",
}


@pytest.fixture(autouse=True)
def _kinds_are_put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(KINDS)
    for name in SWITCHES:
        monkeypatch.delenv(name, raising=False)
    yield
    KINDS.clear()
    KINDS.update(before)


# Switches and registries


def registered() -> dict[str, tuple[str, ...]]:
    entries = (
        quant.wrappers,
        pools.kv_pool_factories,
        coordinators.coordinators,
        events.listeners,
        models.architectures,
    )
    return {one.noun: one.ids() for one in entries if one}


def test_everything_is_off_by_default() -> None:
    kinds = dict(KINDS)
    plugin.register()
    assert registered() == {}
    assert kinds == KINDS


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_registers_its_own_part_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, SWITCHES[name])
    plugin.register()
    parts = {
        "DSV4_MODEL": ("model architecture", "DeepseekV4ShapedForCausalLM"),
        "DSV4_MXFP4": ("quant wrapper", "v4_mxfp4"),
        "DSV4_HOST_EXPERTS": ("quant wrapper", "v4_expert_split"),
        "DSV4_TOKEN_POOL": ("KV pool factory", "v4_token_pool"),
        "DSV4_HOT_PAGES": ("KV pool factory", "v4_hierarchical_pool"),
        "DSV4_EVENTS": ("lifecycle listener", FOLLOWER),
    }
    what, id = parts[name]
    assert registered() == {what: (id,), "request coordinator": ("v4_pages",)}


@pytest.mark.parametrize("value", ["yes", "-1", "2"])
def test_a_value_that_is_none_is_refused_by_name(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSV4_MXFP4", value)
    with pytest.raises(ConfigurationError, match=f"DSV4_MXFP4={value}"):
        plugin.register()


def test_registering_everything_is_light(monkeypatch: pytest.MonkeyPatch, run_program: Any) -> None:
    for name, value in SWITCHES.items():
        monkeypatch.setenv(name, value)
    assert run_program("register_the_v4_plugin.py", str(SOURCE)).stdout.strip() == "[]"


def test_its_pools_are_for_its_family_and_the_hierarchical_one_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in SWITCHES.items():
        monkeypatch.setenv(name, value)
    plugin.register()

    def resolved(architecture: str) -> Any:
        hf_config = SimpleNamespace(architectures=[architecture])
        return pools.resolve_kv_pool_factory(SimpleNamespace(hf_config=hf_config), None)

    assert resolved("Qwen3MoeForCausalLM") is None
    id, factory = resolved("DeepseekV3ForCausalLM")
    assert id == "v4_hierarchical_pool"
    assert factory("mha") is None
    assert factory("mla").hot_pages == 5
    assert factory("mla") is factory("mla")  # re-based once
    (plain,) = (one for one in pools.kv_pool_factories if one.id != id)
    assert plain.part.build("mla") is V4TokenPool


def test_the_pools_kind_is_its_own_and_no_edit_of_core(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="not a kind of KV pool"):
        kv_pool_kind("v4_token")
    monkeypatch.setenv("DSV4_TOKEN_POOL", "1")
    plugin.register()
    assert kv_pool_kind("v4_token") == V4TokenPool._pool_kind == KIND.name
    core = Path(sys.modules["sglang_platform.core"].__file__ or "").parent
    assert [path for path in core.rglob("*.py") if "v4_token" in path.read_text()] == []


def test_a_disabled_architecture_is_told_and_never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSV4_MODEL", "1")
    monkeypatch.setenv(models.DISABLED_VARIABLE, "deepseek_v4_shaped")
    plugin.register()
    with pytest.raises(RegistryError, match=f"names deepseek_v4_shaped\n.*out of {models.DISABLED_VARIABLE}"):
        models.load_model(plugin.ARCHITECTURE)
    assert "deepseek_v4_plugin.deepseek_v4_shaped" not in sys.modules


# MXFP4


def nearest(value: float) -> float:
    """The E2M1 number next to `value`, of two as near the one whose code is even: all sixteen tried."""
    magnitudes = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    code = min(range(8), key=lambda one: (abs(abs(value) - magnitudes[one]), one % 2))
    return magnitudes[code] if value >= 0 else -magnitudes[code]


def numbers(scale: float) -> list[float]:
    """Multiples of a quarter of the scale from -7.75 to 7.75 scales, and so every tie, in two blocks of one scale."""
    steps = [step / 4 * scale for step in range(-31, 32)]
    return [*steps, 7.75 * scale]


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**30])
def test_every_number_goes_to_the_nearest(scale: float) -> None:
    weight = torch.tensor(numbers(scale))
    codes, scales = quantise(weight)
    assert (codes.shape, scales.shape) == ((32,), (2,))
    assert torch.equal(scales.view(torch.float8_e8m0fnu).float(), torch.full((2,), scale))
    stored = dequantise(codes, scales, torch.float32)
    assert stored.tolist() == [nearest(value / scale) * scale for value in weight.tolist()]


def test_codes_are_two_to_a_byte_the_first_in_the_low_half() -> None:
    weight = torch.zeros(BLOCK)
    weight[:4] = torch.tensor([6.0, -0.5, 1.5, -4.0])
    codes, scales = quantise(weight)
    assert codes[:2].tolist() == [0x97, 0xE3]
    assert scales.tolist() == [127]


@given(
    st.lists(st.floats(-(2.0**60), 2.0**60, width=32), min_size=BLOCK, max_size=BLOCK).filter(
        lambda block: not 0 < max(map(abs, block)) < 2.0**-125
    )
)
def test_the_error_of_a_number_is_at_most_a_quarter_of_its_blocks_largest(block: list[float]) -> None:
    weight = torch.tensor(block)
    error = (dequantise(*quantise(weight), torch.float32).double() - weight.double()).abs()
    assert float(error.max()) <= max(map(abs, block)) / 4


def test_nothing_below_a_quarter_bounds_it() -> None:
    weight = torch.full((BLOCK,), 7.999)
    error = (dequantise(*quantise(weight), torch.float32) - weight).abs().max() / 7.999
    assert 0.2498 < float(error) <= 0.25


@pytest.mark.parametrize(
    ("weight", "why"),
    [
        (torch.zeros(4, 33), "blocks of 32"),
        (torch.full((32,), float("inf")), "infinities"),
        (torch.full((32,), float("nan")), "NaN"),
    ],
)
def test_what_has_no_mxfp4_is_refused(weight: torch.Tensor, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        quantise(weight)


# Experts

E, H, INTER, K = 8, 64, 32, 3


class TopK(SimpleNamespace):
    def _replace(self, **changed: Any) -> Any:
        return type(self)(**{**vars(self), **changed})


class Experts:
    """A method as the host has it: a token's experts one after the other, in the order of their numbers."""

    def process_weights_after_loading(self, layer: Any) -> None: ...

    def apply(self, layer: Any, dispatched: Any) -> torch.Tensor:
        x, topk = dispatched.hidden_states, dispatched.topk_output
        out = torch.zeros_like(x)
        for token, (weights, ids) in enumerate(zip(topk.topk_weights, topk.topk_ids, strict=True)):
            for expert, weight in sorted(zip(ids.tolist(), weights.tolist(), strict=True)):
                if expert >= 0:
                    gate, up = (layer.w13_weight[expert] @ x[token]).chunk(2)
                    hidden = torch.nn.functional.silu(gate) * up
                    out[token] += weight * (layer.w2_weight[expert] @ hidden)
        return out


def a_layer() -> torch.nn.Module:
    layer = torch.nn.Module()
    layer.num_experts = E
    layer.w13_weight = torch.nn.Parameter(torch.randn(E, 2 * INTER, H), requires_grad=False)
    layer.w2_weight = torch.nn.Parameter(torch.randn(E, H, INTER), requires_grad=False)
    return layer


def a_batch(tokens: int = 5) -> Any:
    ids = torch.stack([torch.randperm(E)[:K] for _ in range(tokens)]) if tokens else torch.zeros(0, K).long()
    if tokens:
        ids[0, 0] = -1  # another rank's
    topk = TopK(topk_weights=torch.rand(tokens, K), topk_ids=ids.int())
    return TopK(hidden_states=torch.randn(tokens, H), topk_output=topk)


@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_the_split_is_exact_to_the_last_bit(tokens: int) -> None:
    layer, batch = a_layer(), a_batch(tokens)
    expected = Experts().apply(layer, batch)
    split = ExpertSplit(Experts(), on_host=3)
    split.process_weights_after_loading(layer)
    assert layer.w13_weight.shape[0] == layer.w2_weight.shape[0] == E - 3
    assert {name: held.shape[0] for name, held in split.behind.items()} == {"w13_weight": 3, "w2_weight": 3}
    assert torch.equal(split.apply(layer, batch), expected)


def test_mxfp4_is_the_plain_method_on_the_types_values_also_within_the_split() -> None:
    layer, batch = a_layer(), a_batch()
    rounded = torch.nn.Module()
    for name in ("w13_weight", "w2_weight"):
        setattr(rounded, name, dequantise(*quantise(getattr(layer, name)), torch.float32))
    expected = Experts().apply(rounded, batch)
    before = layer.w13_weight.nbytes + layer.w2_weight.nbytes
    both = ExpertSplit(MXFP4Experts(Experts()), on_host=3)
    both.process_weights_after_loading(layer)
    assert set(both.behind) == {"w13_weight", "w13_weight_scale", "w2_weight", "w2_weight_scale"}
    held = [*layer.parameters(), *layer.buffers(), *both.behind.values()]
    assert sum(one.nbytes for one in held) == before / 4 * (4 + 8 / 32) / 8  # 4 bits each, 8 for 32 of them
    assert torch.equal(both.apply(layer, batch), expected)


def wrapped_with(mxfp4: int, split: int) -> Any:
    def always(layer: Any, server_args: Any) -> dict[str, Any]:
        return {}

    register_quant_wrapper("v4_mxfp4", always, lambda layer, method, ctx: MXFP4Experts(method), mxfp4)
    register_quant_wrapper(
        "v4_expert_split", always, lambda layer, method, ctx: ExpertSplit(method, 2), split
    )
    return quant.wrap(object(), Experts(), None)


def test_the_right_order_is_the_split_around_mxfp4() -> None:
    chain = wrapped_with(mxfp4=10, split=20)
    assert type(chain)._quant_wrapper_id == "v4_expert_split"
    assert is_wrapped(chain, "v4_mxfp4")


def test_the_wrong_order_is_refused_with_the_way_out() -> None:
    with pytest.raises(RegistryError, match="v4_mxfp4 is to go around v4_expert_split") as caught:
        wrapped_with(mxfp4=20, split=10)
    assert "register v4_mxfp4 with the lower priority" in str(caught.value)


def test_a_split_that_leaves_no_expert_is_refused() -> None:
    split = ExpertSplit(Experts(), on_host=E)
    with pytest.raises(RegistryError, match=f"DSV4_HOST_EXPERTS to at most {E - 1}"):
        split.process_weights_after_loading(a_layer())


# The hierarchical pool

PAGE, PAGES, PLACES, LAYERS = 4, 12, 5, 3
SHAPE: dict[str, Any] = {
    "size": PAGE * (PAGES - 1), "page_size": PAGE, "dtype": torch.float32, "kv_lora_rank": 6, "qk_rope_head_dim": 2,
    "layer_num": LAYERS, "device": "cpu", "enable_memory_saver": False,
}  # fmt: skip


class Pool(HierarchicalPool):
    hot_pages = PLACES


def slots_of(pages: list[int]) -> torch.Tensor:
    return torch.cat([torch.arange(page * PAGE, (page + 1) * PAGE) for page in pages])


def test_a_missing_sibling_is_told_with_the_way_out() -> None:
    with pytest.raises(RegistryError, match=f"no lifecycle listener '{FOLLOWER}'.*\n.*set DSV4_EVENTS=1"):
        Pool(**SHAPE)


def test_rows_come_back_as_they_were_written_wherever_their_page_has_been() -> None:
    register_forward_hook(FOLLOWER, PageFollower())
    pool, plain = Pool(**SHAPE), MLATokenToKVPool(**SHAPE)
    assert pool.tokens.shape == (PLACES * PAGE, LAYERS, 8)
    moved = 0
    for _ in range(60):
        pages = random.sample(range(1, PAGES), random.randint(1, PLACES - 1))
        written = set(pages[: random.randint(0, len(pages))])
        pool.make_hot(pages, written)
        for number in range(LAYERS):
            layer = SimpleNamespace(layer_id=number)
            for page in written:
                rows = torch.randn(PAGE, 1, 6), torch.randn(PAGE, 1, 2)
                for one in (pool, plain):
                    one.set_mla_kv_buffer(layer, slots_of([page]), *rows)
            slots = slots_of(pages)
            read = pool.get_mla_kv_buffer(layer, slots)
            expected = plain.get_mla_kv_buffer(layer, slots)
            known = torch.cat([plain.kv_buffer[number][slots_of([p])] for p in pages]).flatten(1).any(dim=1)
            for mine, right in zip(read, expected, strict=True):
                assert torch.equal(mine[known], right[known])
            through_the_map = pool.get_key_buffer(number)[pool.slot_map[slots]]
            assert torch.equal(through_the_map[known], plain.get_key_buffer(number)[slots][known])
        moved += len(pool.behind)
    assert moved > 0
    pool.forget()
    assert pool.behind == {}
    assert set(pool.slot_map[PAGE:].tolist()) == {-1}
    assert pool.slot_map[:PAGE].tolist() == [0, 1, 2, 3]


def test_what_would_go_past_the_map_is_refused() -> None:
    register_forward_hook(FOLLOWER, PageFollower())
    pool = Pool(**SHAPE)
    slots = slots_of([1])
    for call in (pool.get_cpu_copy, pool.move_kv_cache, pool.get_contiguous_buf_infos):
        arguments = {"move_kv_cache": (slots, slots), "_whole": (slots, slots)}.get(call.__name__, ())
        with pytest.raises(NotImplementedError, match="Pool"):
            call(*arguments)
    with pytest.raises(IndexError):  # a page that is behind
        pool.set_mla_kv_buffer(SimpleNamespace(layer_id=0), slots, torch.zeros(4, 1, 6), torch.zeros(4, 1, 2))


@given(
    st.integers(2, 6),
    st.lists(st.sets(st.integers(0, 9), max_size=5), max_size=12),
)
def test_the_page_used_longest_ago_leaves_first(places: int, steps: list[set[int]]) -> None:
    hot = HotPages(places)
    place_of: dict[int, int] = {}
    last_used: dict[int, int] = {}
    for now, pages in enumerate(steps):
        wanted = pages - {0}
        if len(wanted) >= places:
            with pytest.raises(PlatformError, match=f"at least {len(wanted) + 1}"):
                hot.take(pages)
            continue
        for page, place, evicted in hot.take(pages):
            if evicted is not None:
                assert len(place_of) == places - 1
                assert last_used[evicted] == min(last_used[one] for one in place_of.keys() - wanted)
                assert place_of.pop(evicted) == place
            assert place not in {0, *place_of.values()}
            place_of[page] = place
        assert wanted <= place_of.keys()
        last_used.update(dict.fromkeys(wanted, now))


# The follower and the coordinator


def followed(pool: Any, backend: Any) -> PageFollower:
    follower = PageFollower()
    table = torch.arange(2 * PAGE * 3).view(2, -1).int() + PAGE
    follower.on_model_loaded(
        SimpleNamespace(
            token_to_kv_pool=pool, attn_backend=backend, req_to_token_pool=SimpleNamespace(req_to_token=table)
        )
    )
    return follower


def test_a_steps_pages_are_hot_before_it_begins() -> None:
    register_forward_hook(FOLLOWER, PageFollower())
    pool = Pool(**SHAPE)
    reads = type("Reads", (), {"_reads_slot_map": True})()
    batch = SimpleNamespace(
        req_pool_indices=torch.tensor([1, 0]),
        seq_lens=torch.tensor([6, 3]),
        out_cache_loc=torch.tensor([21, 6]),
    )
    followed(pool, reads).on_forward_begin(batch)
    # Row 1 begins with page 4, and has two pages in six tokens; row 0 with page 1; 21 is in page 5.
    hot = sorted(set((pool.slot_map >= 0).nonzero().flatten().floor_divide(PAGE).tolist()))
    assert hot == [0, 1, 4, 5]
    assert pool._unsaved == {1, 5}


def test_a_backend_hands_its_kernels_the_pools_own_map() -> None:
    register_forward_hook(FOLLOWER, PageFollower())

    def slot_map(pool: Any) -> Any:
        runner = SimpleNamespace(token_to_kv_pool=pool, req_to_token_pool=None, device="cpu")
        return AttentionBackend(runner).slot_map(SimpleNamespace(layer_id=0), None)

    pool = Pool(**SHAPE)
    assert slot_map(pool) is pool.slot_map
    assert slot_map(V4TokenPool(**SHAPE)) is None  # its rows lie at their slots


def test_a_backend_without_the_tag_is_refused_whatever_its_object_says() -> None:
    register_forward_hook(FOLLOWER, PageFollower())
    backend = type("TorchNative", (), {})()
    backend._reads_slot_map = True
    with pytest.raises(RegistryError, match="TorchNative cannot read Pool"):
        followed(Pool(**SHAPE), backend).on_forward_begin(SimpleNamespace())


def test_a_part_is_known_by_its_tag_alone() -> None:
    other = type("PoolOfAnotherCopy", (), {"_is_v4_token_pool": True})
    assert has_tag(other(), TOKEN_POOL)
    assert not has_tag(other(), HIERARCHICAL_POOL)
    assert has_tag(object.__new__(Pool), HIERARCHICAL_POOL)
    assert not has_tag(object.__new__(MLATokenToKVPool), TOKEN_POOL)


def a_scheduler(requests: int, **arguments: Any) -> Any:
    register_forward_hook(FOLLOWER, PageFollower())
    pool = Pool(**SHAPE)
    return SimpleNamespace(
        token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: pool),
        server_args=SimpleNamespace(**arguments),
        model_config=SimpleNamespace(context_len=7),
        max_running_requests=requests,
    )


def test_what_could_not_fit_is_refused_at_launch() -> None:
    PageCoordinator(a_scheduler(2))  # 2 requests of 2 pages, and the padding's: all five
    events.reset()
    with pytest.raises(RegistryError, match="DSV4_HOT_PAGES=7"):
        PageCoordinator(a_scheduler(3))


@pytest.mark.parametrize(
    "argument",
    [
        {"enable_hierarchical_cache": True},
        {"disaggregation_mode": "prefill"},
        {"speculative_algorithm": "EAGLE"},
    ],
)
def test_arguments_under_which_sglang_moves_rows_are_refused(argument: dict[str, Any]) -> None:
    option = "--" + next(iter(argument)).replace("_", "-")
    with pytest.raises(RegistryError, match=f"{option} cannot be served"):
        PageCoordinator(a_scheduler(1, **argument))
