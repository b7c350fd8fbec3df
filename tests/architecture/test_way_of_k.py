"""The way of `k` from the model to the pool's buffer is short, goes forward only, and is written as it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_graph import modules_below
from way_of_k import PAGE, WAYS, Lost, Step, follow, written


@pytest.mark.sample(2)
@pytest.mark.parametrize("title", WAYS)
def test_the_way_is_short_and_never_goes_back(title: str) -> None:
    steps = follow(WAYS[title])
    assert len(steps) <= 7
    assert not _entered_again(steps)


@pytest.mark.long
def test_the_page_tells_the_way_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- the way of k: {title} -->" in page for title in WAYS)
    assert page == written(page), "write it anew: python tests/architecture/way_of_k.py"


def _entered_again(steps: list[Step]) -> list[Path]:
    """Files that the way leaves and comes back to."""
    entered = [
        step.path for here, step in zip([None, *steps], steps, strict=False) if not _same_file(here, step)
    ]
    return sorted({path for path in entered if entered.count(path) > 1})


def _same_file(here: Step | None, there: Step) -> bool:
    return here is not None and here.path == there.path


_WAY = ("Backend.forward", "Pool.set_kv_buffer", "kernels.store", "kernels.store_kernel")
_BACKEND = """
class Backend(Base): ...
class Base:
    def forward(self, q, k, v):
        keys, values = k.view(-1), v.view(-1)
        self.pool.set_kv_buffer(values, {keys})
"""
_POOL = """
class Pool:
    def set_kv_buffer(self, cache_v, cache_k):
        run = kernels.store
        run(cache_v, rows=cache_k)
"""
_KERNELS = """
def store(a, rows):
    store_kernel[(1, 2)](rows.stride(0), a)
def store_kernel(pointer, other): ...
"""


def _modules(folder: Path, keys: str) -> dict[str, Path]:
    for name, text in {"backend": _BACKEND.format(keys=keys), "pool": _POOL, "kernels": _KERNELS}.items():
        (folder / f"{name}.py").write_text(text)
    return modules_below(folder)


def test_a_parameter_is_followed(tmp_path: Path) -> None:
    steps = follow(_WAY, _modules(tmp_path, "keys"))
    assert [(step.name, step.carries) for step in steps] == [
        ("Base.forward", "k"),
        ("Pool.set_kv_buffer", "cache_k"),
        ("store", "rows"),
        ("store_kernel", "pointer"),
    ]
    assert not _entered_again(steps)
    assert _entered_again([*steps, steps[0]]) == [tmp_path / "backend.py"]


def test_a_parameter_left_behind_is_seen(tmp_path: Path) -> None:
    modules = _modules(tmp_path, "values.clone()")
    with pytest.raises(Lost, match=r"Base\.forward does not hand k on to set_kv_buffer"):
        follow(("Backend.forward", "Pool.set_kv_buffer"), {**modules, "x": modules["kernels"]})


def test_a_step_that_is_gone_is_seen(tmp_path: Path) -> None:
    with pytest.raises(Lost, match=r"Pool\.gone: no such function"):
        follow(("Backend.forward", "Pool.gone"), _modules(tmp_path, "keys"))
