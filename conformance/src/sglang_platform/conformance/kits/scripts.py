"""Scripts for SGLang's scripted runtime: each drives the scheduler of a running server step by step, from inside it.

The runtime is in the wheel, its scripts are not and stand here. A script is a generator: what it yields is one step of
the scheduler. It fails where it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["CHUNK", "SCRIPTS"]

CHUNK = 64
"""Tokens of a prompt that the server computes at once."""

_STEPS = 400


def long_prompts_are_cut(runtime: Any) -> Iterator[None]:
    """A prompt of three and a bit chunks takes four steps, and holds no slot of the pool twice."""
    request = runtime.start_req(prompt_len=3 * CHUNK + 5, max_new_tokens=4, ignore_eos=True)
    yield from _until(lambda: request.finished)
    assert request.chunks_done == 4, f"it was computed in {request.chunks_done} steps"


def what_is_known_is_not_computed_again(runtime: Any) -> Iterator[None]:
    """The second request of the same prompt finds it in the cache, and is not cut."""
    for expected in (4, 0):
        request = runtime.start_req(
            prompt_len=3 * CHUNK + 5, max_new_tokens=4, ignore_eos=True, prompt_token=9
        )
        yield from _until(lambda asked=request: asked.finished)
        assert request.chunks_done == expected, f"it was computed in {request.chunks_done} steps"


def a_paused_request_goes_on(runtime: Any) -> Iterator[None]:
    """Paused where it is, a request gets no step; taken back to the queue, it starts anew; either way it ends."""
    for mode in ("in_place", "retract"):
        request = runtime.start_req(prompt_len=30, max_new_tokens=40, ignore_eos=True)
        yield from _until(lambda asked=request: len(_tokens(asked)) >= 5)
        runtime.pause_generation(mode=mode)
        yield
        before = len(_tokens(request))
        for _ in range(10):
            yield
        assert not request.finished
        assert len(_tokens(request)) in (before, before + 1), "it got tokens while it was paused"
        runtime.continue_generation()
        yield from _until(lambda asked=request: asked.finished)


def an_aborted_prompt_gives_its_slots_back(runtime: Any) -> Iterator[None]:
    """Aborted between two chunks, and after a flush, the pool is as free as before."""
    free = runtime.engine_stats()["kv_pool_free"]
    request = runtime.start_req(prompt_len=6 * CHUNK, max_new_tokens=4)
    yield from _until(lambda: request.is_chunking)
    runtime.abort(request)
    yield from _until(lambda: runtime.is_fully_idle)
    runtime.flush_cache()
    yield from _until(lambda: runtime.engine_stats()["kv_pool_free"] == free)


def requests_wait_for_room(runtime: Any) -> Iterator[None]:
    """In a pool that holds one of them, two requests are served one after the other."""
    pages = (4 * CHUNK) // runtime.engine_stats()["page_size"]
    runtime.exhaust_kv(leave_pages=pages)
    requests = [
        runtime.start_req(prompt_len=3 * CHUNK, max_new_tokens=8, ignore_eos=True, prompt_token=token)
        for token in (11, 12)
    ]
    together = 0
    for _ in range(_STEPS):
        if all(one.finished for one in requests):
            break
        together += len(runtime.batch_composition()["running"]) == len(requests)
        yield
    assert all(one.finished for one in requests), "they did not end"
    assert not together, "both ran in a pool that holds one"


SCRIPTS: tuple[Callable[[Any], Iterator[None]], ...] = (
    long_prompts_are_cut,
    what_is_known_is_not_computed_again,
    a_paused_request_goes_on,
    an_aborted_prompt_gives_its_slots_back,
    requests_wait_for_room,
)


def _tokens(request: Any) -> Any:
    return request.req.output_ids if request.req is not None else ()


def _until(holds: Callable[[], bool]) -> Iterator[None]:
    for _ in range(_STEPS):
        if holds():
            return
        yield
    raise AssertionError(f"not within {_STEPS} steps of the scheduler")
