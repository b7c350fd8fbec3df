import subprocess
import sys

import pytest

MODULES = [
    "bridges",
    "capabilities",
    "checks",
    "device",
    "drift",
    "members",
    "mm",
    "signatures",
    "source",
    "srt",
    "types",
    "values",
    "version",
]

DEFINE_AND_BREAK = """
from sglang_platform.core.contract import DeviceMixin, MMPlatform, PlatformEnum, SRTPlatform
class Device(DeviceMixin):
    _enum = PlatformEnum.OOT
class Platform(SRTPlatform, Device):
    def supports_fp8(self): return True
class MM(MMPlatform, Device): pass
Platform().is_out_of_tree(), Platform().capabilities.fp8, repr(MM())
try:
    class Bad(Platform):
        def get_graph_runner(self): ...
except TypeError:
    pass
else:
    raise SystemExit("not refused")
"""


@pytest.mark.parametrize("code", ["import sglang_platform.core.contract", DEFINE_AND_BREAK])
def test_the_contract_needs_neither_torch_nor_numpy_nor_sglang(code):
    imports = "".join(f"import sglang_platform.core.contract.{module}\n" for module in MODULES)
    heavy = "import sys; print([m for m in ('torch', 'numpy', 'sglang', 'triton') if m in sys.modules])"
    done = subprocess.run(
        # The older name in one of them is told by a warning and in the log.
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            f"import logging; logging.disable()\n{imports}{code}\n{heavy}",
        ],
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"
