"""A launch with an `activate()` that answers SGLang directly ends in core's words, not in a traceback of SGLang's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.host

CLASS = (
    "from sglang_platform.core import SRTPlatform\nclass Platform(SRTPlatform):\n    device_name = 'ven'\n"
)
DECORATE = "`@platform_plugin` above `def activate()`"
FORMS = {
    "a text with a colon": ("def activate():\n    return 'ven_cls:Platform'\n", DECORATE),
    "a dotted text": ("def activate():\n    return 'ven_cls.Platform'\n", DECORATE),
    "imported before": ("import ven_cls\ndef activate():\n    return 'ven_cls:Platform'\n", DECORATE),
    "under another name": (
        "from ven_cls import Platform as P\ndef activate():\n    return 'ven_plugin:P'\n",
        DECORATE,
    ),
    "the other runtime's decorator": (
        "from sglang_platform.core import mm_platform_plugin\n@mm_platform_plugin\n"
        "def activate():\n    return 'ven_cls:Platform'\n",
        DECORATE,
    ),
    "the class": ("def activate():\n    import ven_cls\n    return ven_cls.Platform\n", "the text"),
    "an instance": ("def activate():\n    import ven_cls\n    return ven_cls.Platform()\n", "the text"),
    "a missing class": (
        "import ven_cls\ndef activate():\n    return 'ven_cls:Gone'\n",
        "correct ven_cls:Gone",
    ),
    "a tuple": ("import ven_cls\ndef activate():\n    return ('ven_cls', 'Platform')\n", "the text"),
    "no subclass": ("import ven_cls\ndef activate():\n    return 'json:JSONDecoder'\n", "derive the class"),
}


@pytest.mark.sample(20)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["ven", ""])
def test_the_launch_ends_in_words(tmp_path: Path, form: str, name: str) -> None:
    source, fix = FORMS[form]
    (tmp_path / "ven_plugin.py").write_text(source)
    (tmp_path / "ven_cls.py").write_text(CLASS)
    info = tmp_path / "ven_dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ven-dist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sglang.srt.platforms]\nven = ven_plugin:activate\n[sglang_platform.contract]\nven = v1\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import sglang"],
        env={**os.environ, "PYTHONPATH": path, "SGLANG_PLATFORM": name},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "plugin: ven (ven-dist 1.0)" in done.stderr
    assert fix in done.stderr
    assert "Traceback" not in done.stderr
