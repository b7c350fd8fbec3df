"""What SGLang asks of parts beside their base classes: what changed with a release, and that ours answer as its own."""

from __future__ import annotations

import difflib
import importlib.metadata
import os
from pathlib import Path

import pytest
from packaging.version import Version

from sglang_platform.core.sglang.versions import NEWEST
from sglang_platform.devtools.source.opening import open_host
from tools.whose_parts.asked import COMPARED, UNDECIDED, answer, protocols

COMMITTED = Path(__file__).with_name("host_protocols.txt")
PLATFORMS = {
    "cuda": "sglang_platform.cuda.platform:CudaSRTPlatform",
    "rocm": "sglang_platform.rocm.platform:RocmSRTPlatform",
}


@pytest.mark.long
@pytest.mark.host
def test_the_installed_host_asks_what_the_list_says() -> None:
    installed = importlib.metadata.version("sglang")
    if Version(installed) < Version(NEWEST):
        pytest.skip(f"the list is of SGLang {NEWEST}, and {installed} is installed")
    known, asked = COMMITTED.read_text().splitlines(), protocols(open_host("installed", {"sglang"}))
    changed = [line for line in difflib.ndiff(known, asked) if line[:2] in ("+ ", "- ")]
    assert not changed, (
        f"SGLang {installed} asks parts in other ways than {NEWEST}: for each line decide whether a part of ours "
        "loses the feature, then write the list anew: python -m tools.whose_parts.asked\n"
        + "\n".join(changed)
    )


def test_of_every_question_it_is_known_whether_ours_fit() -> None:
    undecided = [line for line in COMMITTED.read_text().splitlines() if answer(line) == UNDECIDED]
    assert not undecided, "decide in tools/whose_parts/asked.py"
    assert answer("mem_cache.new: type(kv_pool) is MHATokenToKVPool") == UNDECIDED
    assert sum(line in COMPARED for line in COMMITTED.read_text().splitlines()) > 10


WHEELS = os.environ.get("SGLANG_PLATFORM_HOST_WHEELS", "")


@pytest.mark.skipif(not WHEELS, reason="SGLANG_PLATFORM_HOST_WHEELS names no folder of SGLang's wheels")
@pytest.mark.parametrize(
    "wheel", sorted(Path(WHEELS).glob("sglang-*.whl")) if WHEELS else [], ids=lambda path: path.name
)
def test_other_releases_ask_nothing_that_is_undecided(wheel: Path) -> None:
    asked = protocols(open_host(str(wheel), {"sglang"}))
    assert len(asked) > 20
    undecided = [line for line in asked if answer(line) == UNDECIDED]
    assert not undecided, "decide in tools/whose_parts/asked.py"


def test_each_way_of_asking_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "sglang" / "srt"
    source.mkdir(parents=True)
    (source.parent / "__init__.py").touch()
    (source / "__init__.py").touch()
    (source / "asks.py").write_text(
        "def f(self, kv_pool, pool_cls, number):\n"
        "    type(self.kv_pool) is MHATokenToKVPool\n"
        "    type(kv_pool) in (One, Two)\n"
        "    assert pool_cls is not MLATokenToKVPool\n"
        "    getattr(self.token_to_kv_pool_allocator, 'size_full', None)\n"
        "    hasattr(get_attn_backend(), 'fused')\n"
        "    getattr(kv_pool, 'size'), isinstance(kv_pool, MHATokenToKVPool), type(number) is int\n"
    )
    assert protocols(open_host(str(tmp_path), {"sglang"})) == [
        "asks: getattr(self.token_to_kv_pool_allocator, 'size_full', None)",
        "asks: hasattr(get_attn_backend(), 'fused')",
        "asks: pool_cls is not MLATokenToKVPool",
        "asks: type(kv_pool) in (One, Two)",
        "asks: type(self.kv_pool) is MHATokenToKVPool",
    ]


@pytest.mark.sample(2)
@pytest.mark.host
@pytest.mark.parametrize("name", PLATFORMS)
def test_pools_and_allocators_answer_as_the_hosts_own(name: str, monkeypatch, run_program) -> None:
    """Each name that the host may or may not find is there in a class of ours exactly where it is in the host's."""
    monkeypatch.setenv("SGLANG_PLATFORM_PLUGIN", f"{name}={PLATFORMS[name]}")
    monkeypatch.setenv("SGLANG_PLATFORM_PARTS", "own")
    run_program("answer_as_the_hosts_own.py", str(COMMITTED), timeout=600)
