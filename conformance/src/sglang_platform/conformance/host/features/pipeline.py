"""A model split over several devices by layers."""

from __future__ import annotations

from sglang_platform.conformance.check import expect
from sglang_platform.conformance.host import reference
from sglang_platform.conformance.host.features.record import EngineLaunch, feature
from sglang_platform.conformance.host.features.running import Running

__all__: list[str] = []

_GROUP = "Several devices"
_LENGTHS = (1, 17, 64, 300)
_NEW_TOKENS = 16
_ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
_FOUR_DEVICES = {**_ENVIRONMENT, "SGLANG_EXAMPLE_OOT_DEVICES": "4"}  # the example has as many as it is told
_FIX = (
    "the process group behind get_torch_distributed_backend_str() must carry send and recv; with graphs, "
    "derive the runner from core's GraphRunner, which keeps what an earlier stage hands over in static inputs"
)


def _stages_agree(run: Running, workers: int) -> None:
    run.gives_the_tokens(reference.prompts(_LENGTHS), _NEW_TOKENS)
    run.is_served_by(workers)
    eager = run.engine.counters()["graph.without_graph"]
    expect(
        eager == 0,
        f"{eager} steps of a stage ran without their graph: it is handed other tensors than it was captured for",
    )


@feature(
    group=_GROUP,
    title="pipeline parallel 2",
    launch=EngineLaunch("pipeline", {"pp_size": 2}, environment=_ENVIRONMENT),
    fix=_FIX,
)
def pipeline_parallel(run: Running) -> None:
    """Two stages of a model give the tokens of one process, prompt by prompt and together, decoding with graphs."""
    _stages_agree(run, 2)


@feature(
    group=_GROUP,
    title="pipeline parallel 2, without graphs",
    launch=EngineLaunch("pipeline-eager", {"pp_size": 2}, environment=_ENVIRONMENT, graphs=False),
    fix=_FIX,
)
def pipeline_parallel_eager(run: Running) -> None:
    """Two stages without graphs give the tokens of one process."""
    _stages_agree(run, 2)


@feature(
    group=_GROUP,
    title="pipeline parallel 2 x tensor parallel 2",
    launch=EngineLaunch("pipeline-tensor", {"pp_size": 2, "tp_size": 2}, environment=_FOUR_DEVICES),
    fix=_FIX,
)
def pipeline_and_tensor_parallel(run: Running) -> None:
    """Two stages of two ranks each give the tokens of one process."""
    _stages_agree(run, 4)
