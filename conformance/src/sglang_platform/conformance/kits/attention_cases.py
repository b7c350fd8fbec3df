"""The cases of SGLang's attention kit: its methods of attention in each of its runner modes.

The kit has the functions that run a case, and the tables of cases for plain prefill and decode; the tables of the
other modes are not in the wheel and stand here. Imported only in a process of the host that has the kit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.test.kits.attention_unittest.attention_methods import (
    dense_attention,
    dsa_attention,
    dsv4_attention,
    gdn_attention,
    kda_attention,
    lightning_attention,
    mamba2_attention,
    mla_attention,
)
from sglang.test.kits.attention_unittest.runner_modes import (
    cuda_graph_decode_runner,
    speculative_draft_extend_runner,
    speculative_draft_runner,
    speculative_target_verify_runner,
    split_op_runner,
)

__all__ = ["KitCase", "kit_cases"]

_LAYOUTS = ("contiguous", "interleaved_pages", "non_monotonic_extend")
_PREFIX, _DRAFTS = (5, 9), (3, 3)


class KitCase(NamedTuple):
    """One test: `run(testcase, **keywords)` raises where it fails. `name` is the kit's function and its case."""

    kit: str
    name: str
    run: Callable[..., None]


def kit_cases(backend: str) -> Iterator[KitCase]:
    """Every case, for an attention backend by name."""
    yield from _dense(backend)
    yield from _mla(backend)
    yield from _others(backend)


def _case(method: str, mode: str, function: Callable[..., None], case: Any, **keywords: Any) -> KitCase:
    detail = "".join(f", {name}={value}" for name, value in keywords.items())
    name = f"{function.__name__}({case.name}{detail})"
    return KitCase(f"attention: {method}, {mode}", name, partial(function, case=case, **keywords))


def _dense(backend: str) -> Iterator[KitCase]:
    kit = dense_attention
    plain = (*kit.make_dense_cases(backend), *kit.make_swa_no_prefix_input_config_cases(backend))
    plain += kit.make_swa_prefix_input_config_cases(backend)
    for case in plain:
        yield _case("dense", "eager", kit.run_dense_attention_case, case)

    def made(name: str, mode: ForwardMode, prefix: tuple[int, ...] = _PREFIX, **more: Any) -> Any:
        fields = {"num_heads": 4, "num_kv_heads": 2, "page_size": 16, "prefix_lens": prefix, **more}
        return kit.DenseAttentionCase(name=name, backend=backend, forward_mode=mode, **fields)

    for layout in _LAYOUTS:
        case = made(f"gqa_extend_{layout}", ForwardMode.EXTEND, extend_lens=(18, 7))
        yield _case("dense", "eager", kit.run_dense_attention_case, case, loc_layout=layout)
    windows = {"num_kv_heads": 4, "sliding_window_size": 4}
    case = made("swa_decode", ForwardMode.DECODE, (3, 4, 5), **windows)
    yield _case("dense", "eager", kit.run_dense_attention_case, case)
    verify = speculative_target_verify_runner.run_dense_spec_verify_case
    case = made("swa_verify", ForwardMode.TARGET_VERIFY, extend_lens=_DRAFTS, **windows)
    yield _case("dense", "target verify", verify, case, topk=1)
    yield from _modes(
        "dense", made, ForwardMode, kits=_Runners("dense", speculative="spec", split=True, frozen=True)
    )


def _mla(backend: str) -> Iterator[KitCase]:
    kit = mla_attention
    for case in kit.make_mla_cases(backend):
        yield _case("mla", "eager", kit.run_mla_attention_case, case)

    def made(name: str, mode: ForwardMode, prefix: tuple[int, ...] = _PREFIX, **more: Any) -> Any:
        fields = {"num_heads": 4, "page_size": 16, "prefix_lens": prefix, **more}
        return kit.MLAAttentionCase(name=name, backend=backend, forward_mode=mode, **fields)

    for layout in _LAYOUTS:
        case = made(f"mla_extend_{layout}", ForwardMode.EXTEND, extend_lens=(18, 7))
        yield _case("mla", "eager", kit.run_mla_attention_case, case, loc_layout=layout)
    yield from _modes(
        "mla", made, ForwardMode, kits=_Runners("mla", speculative="eagle", split=True, frozen=False)
    )


class _Runners(NamedTuple):
    """How the kit names a method's runners."""

    method: str
    speculative: str
    split: bool
    frozen: bool


def _modes(method: str, made: Any, mode: Any, *, kits: _Runners) -> Iterator[KitCase]:
    graphs = getattr(cuda_graph_decode_runner, f"run_{method}_cuda_graph_decode_case")
    for prefix in ((14, 15, 16), (7,)):
        case = made(f"decode_{len(prefix)}", mode.DECODE, prefix)
        yield _case(method, "graph decode", graphs, case)
    split = getattr(split_op_runner, f"run_{method}_split_op_extend_case")
    for breakable in (False, True):
        case = made("extend", mode.EXTEND, extend_lens=(4, 7))
        yield _case(method, "split ops", split, case, breakable=breakable, static_num_tokens=16)
    verify = getattr(speculative_target_verify_runner, f"run_{method}_{kits.speculative}_verify_case")
    graph_verify = getattr(
        speculative_target_verify_runner, f"run_{method}_{kits.speculative}_verify_cuda_graph_case"
    )
    drafts = {"extend_lens": _DRAFTS}
    for topk, kind in ((1, "eagle"), (2, "eagle"), (2, "ngram"), (1, "frozen_kv_mtp"), (1, "dflash")):
        case = made(f"verify_{kind}", mode.TARGET_VERIFY, **drafts)
        yield _case(method, "target verify", verify, case, topk=topk, spec_kind=kind)
    for topk in (1, 2):
        case = made("verify_page_1", mode.TARGET_VERIFY, page_size=1, **drafts)
        yield _case(method, "target verify", verify, case, topk=topk)
    for topk, kind in (
        (1, "eagle"),
        (2, "eagle"),
        (2, "ngram"),
        (1, "frozen_kv_mtp"),
        (1, "dflash"),
    ):
        case = made(f"verify_{kind}_graph", mode.TARGET_VERIFY, **drafts)
        yield _case(method, "target verify", graph_verify, case, topk=topk, spec_kind=kind)
    extend = getattr(speculative_draft_extend_runner, f"run_{method}_draft_extend_v2_cuda_graph_case")
    for style in ("small_real", "prod_fill"):
        case = made(f"draft_extend_{style}", mode.DRAFT_EXTEND_V2, **drafts)
        yield _case(method, "draft extend", extend, case, pad_style=style)
    runner = getattr(
        speculative_draft_extend_runner, f"run_{method}_eagle_draft_extend_v2_cuda_graph_runner_case"
    )
    yield _case(method, "draft runners", runner, made("eagle_draft_extend", mode.DRAFT_EXTEND_V2, **drafts))
    draft = getattr(speculative_draft_runner, f"run_{method}_eagle_draft_cuda_graph_runner_case")
    for topk in (1, 2):
        case = made(f"eagle_draft_top{topk}", mode.DECODE, page_size=16 if topk == 1 else 1)
        yield _case(method, "draft runners", draft, case, topk=topk)
    if kits.frozen:
        frozen = speculative_draft_runner.run_dense_frozen_kv_mtp_cuda_graph_runner_case
        yield _case(method, "draft runners", frozen, made("frozen_kv_mtp", mode.DECODE))


def _others(backend: str) -> Iterator[KitCase]:
    """One prefill and one decode of each method whose layers keep a state, or select what they attend to."""
    for method, kit in (
        ("gdn", gdn_attention),
        ("kda", kda_attention),
        ("lightning", lightning_attention),
        ("mamba2", mamba2_attention),
    ):
        run = getattr(kit, f"run_{method}_attention_case")
        cases = getattr(kit, f"make_{method}_cases")(backend)
        for wanted in (ForwardMode.EXTEND, ForwardMode.DECODE):
            yield _case(method, "eager", run, next(c for c in cases if c.forward_mode == wanted))
    for case in dsa_attention.make_dsa_dense_fallback_cases("dsa")[:1]:
        yield _case("dsa", "eager", dsa_attention.run_dsa_attention_case, case)
    for case in dsa_attention.make_dsa_sparse_cases("dsa")[:1]:
        yield _case("dsa", "eager", dsa_attention.run_dsa_sparse_attention_case, case)
    for case in dsv4_attention.make_dsv4_cases("dsv4")[:1]:
        yield _case("dsv4", "eager", dsv4_attention.run_dsv4_attention_case, case)
