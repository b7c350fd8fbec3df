"""Device memory given back while the engine stands by."""

from __future__ import annotations

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_LENGTHS = (9, 40, 150)
_NEW_TOKENS = 8


@feature(
    group="Memory",
    title="memory released and resumed, new weights",
    launch=EngineLaunch("memory-saver", {"enable_memory_saver": True, "max_total_tokens": 65536}),
    fix="look at get_memory_saver_cls(): resume() says whether memory lies elsewhere; then graphs are captured anew",
)
def memory_saver(run: Running) -> None:
    """What the engine holds is released and resumed, whole and in parts; with the weights that come then, and with
    those of before, the tokens are right, decoding with graphs."""
    asked = reference.prompts(_LENGTHS)
    checkpoints = [run.checkpoint, make_checkpoint(run.models / "llama-1", "llama", seed=1)]
    expected = [reference.greedy(checkpoint, asked, _NEW_TOKENS) for checkpoint in checkpoints]
    _gives(run, asked, expected[0], "at first")
    counts = run.engine.counters()
    run.engine.call("release_memory")
    released = run.engine.counters().get("memory_saver.bytes_released", 0)
    run.engine.call("resume_memory")
    run.engine.call("update_weights", model_path=str(checkpoints[1]), recapture=False)
    _gives(run, asked, expected[1], "with new weights after a release of everything")
    run.engine.call("release_memory", tags=["kv_cache"])
    run.engine.call("resume_memory", tags=["kv_cache"])
    _gives(run, asked, expected[1], "after a release of the cache")
    run.engine.call("release_memory", tags=["weights"])
    run.engine.call("resume_memory", tags=["weights"])
    run.engine.call("update_weights", model_path=str(checkpoints[0]), recapture=False)
    _gives(run, asked, expected[0], "with the first weights again")
    if "memory_saver.bytes_released" in counts:
        expect(released > 0, "nothing was given back")


def _gives(run: Running, asked: list[list[int]], wanted: list[list[int]], when: str) -> None:
    got = run.ask(asked, _NEW_TOKENS)
    expect(got == wanted, f"{when} the prompts give {got}, and transformers gives {wanted}")
