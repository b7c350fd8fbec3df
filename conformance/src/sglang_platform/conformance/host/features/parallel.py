"""Several ranks: tensor, expert and data parallel, data-parallel attention, two nodes."""

from __future__ import annotations

from typing import Any

from sglang_platform.conformance.check import NotApplicable, expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.checkpoints import make_checkpoint
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running
from sglang_platform.conformance.host.server import ServerProcess, free_port

__all__: list[str] = []

_GROUP = "Several devices"
_LENGTHS = (1, 17, 64, 300)
_NEW_TOKENS = 16
_ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
_FIX = "look at the collectives of the communicator and of the process group behind get_torch_distributed_backend_str()"


def _launch(name: str, architecture: str = "llama", **arguments: Any) -> EngineLaunch:
    return EngineLaunch(f"parallel-{name}", arguments, architecture, environment=_ENVIRONMENT)


_APART = _launch(
    "data-attention",
    "qwen3_moe",
    tp_size=2,
    dp_size=2,
    enable_dp_attention=True,
    enable_return_hidden_states=True,
)


def _ranks_agree(run: Running, ranks: int) -> None:
    run.gives_the_tokens(reference.prompts(_LENGTHS), _NEW_TOKENS)
    run.is_served_by(ranks)


@feature(group=_GROUP, title="tensor parallel 2", launch=_launch("tensor", tp_size=2), fix=_FIX)
def tensor_parallel(run: Running) -> None:
    """Two ranks with half of every layer give the tokens of one process."""
    _ranks_agree(run, 2)


@feature(
    group=_GROUP,
    title="expert parallel 2",
    launch=_launch("experts", "qwen3_moe", tp_size=2, ep_size=2),
    fix=_FIX,
)
def expert_parallel(run: Running) -> None:
    """Two ranks with half of the experts each give the tokens of one process."""
    _ranks_agree(run, 2)


@feature(group=_GROUP, title="data parallel 2", launch=_launch("data", dp_size=2), fix=_FIX)
def data_parallel(run: Running) -> None:
    """Two whole models, between which the requests are shared out, give the tokens of one."""
    _ranks_agree(run, 2)


@feature(
    group=_GROUP,
    title="data-parallel attention 2, experts",
    launch=_APART,
    fix=_FIX,
    seconds=600,
)
def data_parallel_attention(run: Running) -> None:
    """Two ranks that attend to requests of their own and share the experts give the tokens of one process."""
    _ranks_agree(run, 2)


@feature(
    group=_GROUP,
    title="data-parallel attention 2, decode graphs",
    launch=_APART,
    fix="derive the graph runner from core's, and let the device's graphs hold the collectives of the communicator",
    since="0.5.23",
    seconds=600,
)
def data_parallel_attention_graphs(run: Running) -> None:
    """Decode steps of ranks with unlike numbers of requests, one of them with none, replay graphs on both, and give the
    tokens of one process, also where a request on one rank asks for hidden states."""
    before = run.engine.counters()["graph.replays"]
    if run.arguments["disable_cuda_graph"] or run.subject.parts.device_argument == "cpu":
        raise NotApplicable(
            "the platform captures no graphs, or is of a device type without graphs for idle ranks"
        )
    prompts = reference.prompts(_LENGTHS)
    run.gives_the_tokens(prompts, _NEW_TOKENS, batches=[[2], [0, 1, 2], [3, 2, 1, 0]])
    some = [True, False, False]
    got = run.engine.call(
        "generate_with_hidden_states", input_ids=prompts[:3], wanted=some, max_new_tokens=_NEW_TOKENS
    )
    expect(
        got == run.expected(prompts[:3], _NEW_TOKENS),
        f"beside a request for hidden states the tokens are {got}",
    )
    replays = run.engine.counters()["graph.replays"] - before
    steps = 2 * 4 * (_NEW_TOKENS - 1)
    expect(replays >= steps, f"{steps} decode steps on two ranks took {replays} replays of a graph")


@feature(
    group=_GROUP,
    title="data-parallel attention 2, latent rows",
    launch=_launch("data-attention-latent", "deepseek_v3", tp_size=2, dp_size=2, enable_dp_attention=True),
    fix=_FIX,
    seconds=600,
)
def data_parallel_attention_latent(run: Running) -> None:
    """The same for a model with latent attention."""
    _ranks_agree(run, 2)


@feature(group=_GROUP, title="two nodes of one rank", launch=None, fix=_FIX, seconds=600)
def two_nodes(run: Running) -> None:
    """Two launchers, each with one rank of a tensor-parallel pair, give the tokens of one process."""
    checkpoint = make_checkpoint(run.models / "llama", "llama")
    prompts = reference.prompts(_LENGTHS)
    expected = reference.greedy(checkpoint, prompts, _NEW_TOKENS)
    arguments = {
        "model_path": str(checkpoint),
        "device": run.subject.parts.device_argument,
        "tp_size": 2,
        "nnodes": 2,
        "dist_init_addr": f"127.0.0.1:{free_port()}",
    }
    name = run.subject.name
    with (
        ServerProcess(name, {**arguments, "node_rank": 0}, environment=_ENVIRONMENT, wait=False) as first,
        ServerProcess(name, {**arguments, "node_rank": 1}, environment=_ENVIRONMENT, wait=False),
    ):
        first.wait_until_healthy(400)
        for prompt, wanted in zip(prompts, expected, strict=True):
            sampling = {"temperature": 0, "max_new_tokens": _NEW_TOKENS, "ignore_eos": True}
            answer = first.post("/generate", {"input_ids": prompt, "sampling_params": sampling})
            expect(
                answer.status == 200,
                f"a prompt of {len(prompt)} tokens is answered {answer.status}: {answer.body}",
            )
            got = answer.json()["output_ids"]
            expect(
                got == wanted,
                f"a prompt of {len(prompt)} tokens gives {got}, and transformers gives {wanted}",
            )
