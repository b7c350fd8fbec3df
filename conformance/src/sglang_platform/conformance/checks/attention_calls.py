"""Level 4: what attention is called with, and what it keeps from one call to the next."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from sglang_platform.conformance.check import CheckFailed, check, expect
from sglang_platform.conformance.fixtures.attention_case import AttentionCase
from sglang_platform.conformance.fixtures.attention_cases import compute_dtypes, edge_cases
from sglang_platform.conformance.fixtures.attention_judge import OWN_OUTPUT, judge, refused_in_words, run_step
from sglang_platform.conformance.fixtures.attention_sizes import one_of_each
from sglang_platform.conformance.fixtures.attention_step import AttentionStep
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.oracles.fp8 import FP8
from sglang_platform.conformance.requirement import attention_backend, kv_pool
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []

_SERVED = (attention_backend(), kv_pool())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="without save_kv_cache read the new tokens from the cache, where they are; k and v may be None then",
)
def attention_reads_tokens_that_are_in_the_cache(subject: Subject, case: AttentionCase) -> None:
    """With `save_kv_cache=False` the new tokens are in the cache, stored by a fused op or by another layer that shares
    it; their keys and values are handed over again, or are None. Nothing is stored."""
    for given in (True, False):
        step = AttentionStep(subject, case, to_be_read=True)
        if not given and step.fixture.values_in_keys:
            continue  # models with latent attention always hand their row over
        step.store_new_tokens()
        before = step.held()
        q, k, v = step.handed()
        judge(step, step.forward(q, k, v, save=False) if given else step.forward(q, None, None, save=False))
        same = all(np.array_equal(then, now) for then, now in zip(before, step.held(), strict=True))
        expect(
            same, f"forward(save_kv_cache=False) wrote to the cache, k and v {'given' if given else 'None'}"
        )


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="take the number of rows from q.shape[0], and reshape q to [-1, layer.tp_q_head_num, layer.qk_head_dim]",
)
def attention_takes_queries_by_heads(subject: Subject, case: AttentionCase) -> None:
    """Queries of [T, heads, dim], as models with latent attention hand them over, give what flat ones give, also where
    they are a part of wider heads, as before a gate."""
    step = AttentionStep(subject, case)
    q, k, v = step.handed()
    heads = q.unflatten(1, (-1, step.dim))
    wide = torch.cat((heads, torch.ones_like(heads)), dim=-1)[..., : step.dim]
    for query in (heads, wide):
        judge(step, step.forward(query, k, v).flatten(1))


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="answer at once where there are no queries, and ask for no length of a request before there is one",
)
def empty_and_idle_batches_are_answered(subject: Subject, case: AttentionCase) -> None:
    """A batch of no requests, and an idle step, which a rank of data-parallel attention takes part in without requests,
    are answered by no rows; padded rows of an idle step by as many; nothing is stored, and the batch after is right."""
    step = AttentionStep(subject, case, to_be_read=True)
    judge(step, step.got())
    before = step.held()
    for mode, rows in ((case.mode, 0), ("idle", 0), ("idle", 3)):
        batch = _no_requests(subject, mode, rows)
        q, k, v = (
            torch.zeros(rows, heads, dim, dtype=step.dtype, device=subject.device)
            for heads, dim in (
                (case.heads[0], step.dim), (case.heads[1], step.dim), (case.heads[1], step.v_dim),
            )
        )  # fmt: skip
        try:
            with torch.no_grad():
                if mode != "idle":  # the host makes no metadata for an idle step
                    step.backend.init_forward_metadata(batch)
                out = step.backend.forward(q.flatten(1), k, v, step.layer, batch)
            subject.synchronize()
        except Exception as error:
            raise CheckFailed(
                f"a batch of no requests ({mode}, {rows} rows) raises {type(error).__name__}: {error}"
            ) from error
        width = case.heads[0] * step.v_dim
        expect(
            list(out.shape) == [rows, width] and out.dtype == step.dtype,
            f"a batch of no requests ({mode}) is answered by {out.dtype} {list(out.shape)}; it must be {step.dtype}"
            f" {[rows, width]}",
        )
        same = all(np.array_equal(then, now) for then, now in zip(before, step.held(), strict=True))
        expect(same, f"a batch of no requests ({mode}, {rows} rows) wrote to the cache")
    judge(step, step.got())


def _no_requests(subject: Subject, mode: str, rows: int) -> object:
    none = torch.zeros(0, dtype=torch.int64)
    fields = {
        "batch_size": 0,
        "req_pool_indices": none,
        "seq_lens": none,
        "seq_lens_cpu": none,
        "seq_lens_sum": 0,
        "out_cache_loc": torch.zeros(rows, dtype=torch.int64),
        "positions": torch.zeros(rows, dtype=torch.int64),
    }
    if mode == "extend":
        fields |= {
            "extend_prefix_lens": none.to(torch.int32),
            "extend_seq_lens": none.to(torch.int32),
            "extend_prefix_lens_cpu": [],
            "extend_seq_lens_cpu": [],
        }
    return subject.parts.forward_batch(mode, **fields)


def short_and_long(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Edges, and requests of hundreds of tokens, alone and together."""
    yield from edge_cases(subject, rng)
    for case in one_of_each(subject):
        for requests in (((700, 1),), ((300, 1), (513, 1))):
            yield replace(case, mode="decode", requests=requests)
        yield replace(case, mode="extend", requests=((600, 9),))


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=short_and_long,
    fix="read req_to_token in every step: rows are given to other requests, and requests are moved to other slots",
)
def request_table_is_read_in_every_step(subject: Subject, case: AttentionCase) -> None:
    """The request table and the cache are rewritten in place between steps: requests that were preempted come back in
    other rows and other slots, and other requests of the same lengths in the rows of those before, in slots of which
    all are others, all but those of the first page, or all but those of the last."""
    step = AttentionStep(subject, case)
    judge(step, step.got())
    page = case.page_size
    pages = set(range(1, step.contents.slots // page))
    for staying, rows in ((None, 1), (None, 1), (None, 0), (0, 0), (None, 0), (-1, 0)):
        kept = set() if staying is None else {own[staying] // page for own in step.slots}
        moving = sorted(pages - kept)
        moved = dict(zip(moving, moving[1:] + moving[:1], strict=True)) | {at: at for at in kept}
        step.slots = [[moved[slot // page] * page + slot % page for slot in own] for own in step.slots]
        last = step.table.req_to_token.shape[0] - 1
        step.rows = [(row - 1 + rows) % last + 1 for row in step.rows]
        step.k, step.v = [-k for k in step.k], [-v for v in step.v]
        step.fill_table()
        step.store_prefixes()
        step.__dict__.pop("batch", None)
        judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix="read the whole row of req_to_token in every step: the prefix cache puts slots of its own in the place of those"
    " that a request had, and the request goes on in them",
)
def grown_requests_are_read_anew(subject: Subject, case: AttentionCase) -> None:
    """Requests go on where their tokens lie in other slots than a step before: by one token in decode, and by their
    next chunk in extend. What they had is elsewhere then, and other requests' in its place."""
    step = AttentionStep(subject, case)
    before = copy.copy(step)
    chosen = [at for at, (cached, _) in enumerate(case.requests) if cached > 1]
    before.rows = [step.rows[at] for at in chosen]
    ends = [case.requests[at][0] for at in chosen]
    earlier = tuple((end - 1, 1) if case.mode == "decode" else (end // 2, end - end // 2) for end in ends)
    before.case = replace(case, requests=earlier)
    before.q = [step.random_tokens(new, case.heads[0], step.dim) for _, new in earlier]
    for name in ("k", "v", "slots"):
        rows = getattr(step, name)
        setattr(before, name, [rows[at][:end] for at, end in zip(chosen, ends, strict=True)])
    before.__dict__["backend"] = step.backend
    if chosen:
        judge(before, before.got())
    page = case.page_size
    pages = range(1, step.contents.slots // page)
    moved = dict(zip(pages, [*pages[1:], pages[0]], strict=True))
    step.slots = [[moved[slot // page] * page + slot % page for slot in own] for own in step.slots]
    step.k, step.v = [-k for k in step.k], [-v for v in step.v]
    step.fill_table()
    step.store_prefixes()
    step.__dict__.pop("batch", None)
    judge(step, step.got())


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=edge_cases,
    fix=OWN_OUTPUT,
)
def outputs_stay_as_they_were_answered(subject: Subject, case: AttentionCase) -> None:
    """What a call answered is unchanged by the calls after it: models hold one layer's output while the next is
    computed, as where two batches overlap."""
    step = AttentionStep(subject, case)
    first = step.got()
    kept = first.cpu().clone()
    step.q = [-q for q in step.q]
    judge(step, step.got())
    expect(
        torch.equal(first.cpu(), kept),
        "the output of a call is overwritten by the next call, which has other queries",
    )


def caches_of_other_types(subject: Subject, rng: random.Random) -> Iterator[AttentionCase]:
    """Each declared type of the cache with each type that a model computes in, where they differ."""
    kinds = {case.kind: case for case in edge_cases(subject, rng)}
    stored = [name for name in subject.declares.kv_dtypes if getattr(torch, name) not in FP8]
    for kind in kinds:
        for kv_dtype, dtype in itertools.product(stored, compute_dtypes(subject)):
            if kv_dtype != dtype:
                case = replace(kinds[kind], kind=kind, dtype=dtype, kv_dtype=kv_dtype)
                yield replace(case, mode="decode", requests=((40, 1), (3, 1)))
                yield replace(case, mode="extend", requests=((21, 6), (0, 3)))


@check(
    level=Level.KERNELS,
    requires=_SERVED,
    cases=caches_of_other_types,
    fix="read the cache in its own type, and answer in the type of the queries; or raise NotImplementedError that names"
    " the types which do not go together",
)
def cache_of_another_type_than_the_model(subject: Subject, case: AttentionCase) -> None:
    """A cache of another float type than the model computes in (`--kv-cache-dtype`) is read rightly, and the output has
    the type of the queries. A pair of types may be refused in words."""
    with refused_in_words("these types"):
        run_step(subject, case)
