"""Models whose layers keep a state per request instead of keys and values per token."""

from __future__ import annotations

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Models"
_FIX = (
    "answer get_state_kernels() with kernels that contract.state_kernels describes, or leave them out and core's in "
    "plain torch serve; with graphs, look at how padded rows (slot -1) are kept from writing"
)
_LENGTHS = (1, 17, 90, 300)
_NEW_TOKENS = 16
# The host's rules for such models: pages of one token. It keeps the inputs of convolutions in bfloat16 unless told.
_ARGUMENTS = {
    "page_size": 1,
    "max_total_tokens": 4096,
    "max_mamba_cache_size": 64,
    "chunked_prefill_size": 128,
    "cuda_graph_bs_decode": [1, 4],
}
_ENVIRONMENT = {"SGLANG_MAMBA_CONV_DTYPE": "float32"}


def _launch(architecture: str) -> EngineLaunch:
    return EngineLaunch(architecture, _ARGUMENTS, architecture=architecture, environment=_ENVIRONMENT)


def _states_are_right(run: Running) -> None:
    """Each prompt alone, all together, three (a bucket of four pads), and one that continues a prompt from before."""
    prompts = reference.prompts(_LENGTHS)
    wanted = run.expected(prompts, _NEW_TOKENS)
    batches = [[0], [1], [2], [3], [0, 1, 2, 3], [1, 2, 3]]
    run.gives_the_tokens(prompts, _NEW_TOKENS, wanted=wanted, batches=batches)
    turn = [prompts[3] + wanted[3] + prompts[1]]
    (reply,) = run.engine.call("generate", input_ids=turn, max_new_tokens=_NEW_TOKENS)
    (after,) = run.expected(turn, _NEW_TOKENS)
    expect(
        reply["output_ids"] == after,
        f"a second turn, {reply['cached_tokens']} of its tokens from the prefix cache: the tokens are "
        f"{reply['output_ids']}, and transformers gives {after}",
    )
    expect(
        reply["cached_tokens"] > 0,
        "a second turn shares no prefix with the first: the states of finished requests are not kept",
    )


@feature(group=_GROUP, title="gated delta nets (Qwen3-Next)", launch=_launch("qwen3_next"), fix=_FIX)
def gated_delta_hybrid(run: Running) -> None:
    """Prompts in one piece and in several, alone, in batches and with a prefix from the cache give the tokens of
    transformers."""
    _states_are_right(run)


@feature(
    group=_GROUP,
    title="Mamba-2 (Granite 4)",
    launch=_launch("granitemoehybrid"),
    fix=_FIX,
    since="0.5.22",
    before="adds the residual to that model's last layer twice, on every device (models/granitemoehybrid.py)",
)
def mamba2_hybrid(run: Running) -> None:
    """Prompts in one piece and in several, alone, in batches and with a prefix from the cache give the tokens of
    transformers."""
    _states_are_right(run)
