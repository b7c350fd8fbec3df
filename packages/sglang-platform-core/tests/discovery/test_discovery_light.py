"""Discovery and plugin loading stay light: no torch, no sglang, no adapter to a host; nothing is asked on import."""

from __future__ import annotations

import pytest

CHECK = """
import sys
heavy = {"torch", "numpy", "sglang", "triton"} & set(sys.modules)
assert not heavy, heavy
adapters = [name for name in sys.modules if name.startswith("sglang_platform.core.sglang.")]
assert not adapters, adapters
"""


@pytest.mark.parametrize(
    "code",
    [
        "import sglang_platform.core.discovery.current, sglang_platform.core.discovery.entry",
        "import sglang_platform.core.plugins",
        "from sglang_platform.core import current_platform, load_plugins, platform_plugin",
        "from sglang_platform.core.discovery import scan; assert len(scan.records('sglang.srt.platforms')) == 1",
        "from sglang_platform.core.discovery import current; assert current.choice().origin.name == 'dev'",
        "from sglang_platform.core import load_plugins; load_plugins()",
        "from sglang_platform.core import current_platform; assert current_platform.device_name == 'dev'",
        "from sglang_platform.core.doctor.discovery import examine; examine()",
        "from sglang_platform.core import current_platform; current_platform.device_name\n"
        "from sglang_platform.core.discovery import current; assert list(current.trace().lines())",
    ],
)
def test_no_heavy_import(site, code) -> None:
    site.platform("dev")
    site.module("free_hooks", "def register(): ...")
    site.distribution("free-dist", {"sglang.srt.plugins": {"free": "free_hooks:register"}})
    run = site.run(f"{code}\n{CHECK}")
    assert run.returncode == 0, run.stderr


def test_listing_does_not_even_import_importlib_metadata(site) -> None:
    site.platform("dev")
    run = site.run(
        """
        for name in [name for name in sys.modules if name.startswith(("importlib_metadata", "packaging", "zipp"))]:
            del sys.modules[name]
        from sglang_platform.core.discovery import scan
        assert len(scan.records("sglang.srt.platforms")) == 1
        assert "importlib_metadata" not in sys.modules and "dev_plugin" not in sys.modules
        """
    )
    assert run.returncode == 0, run.stderr
