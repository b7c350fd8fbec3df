"""What `doctor` reads in the source of platform classes: dead names, drifted signatures, hidden overrides."""

from __future__ import annotations

import textwrap

import pytest

MIXIN = """
import enum
class PlatformEnum(enum.Enum):
    OOT = 1
class DeviceMixin:
    _enum = None
    device_name: str = "unknown"
    def get_device(self, device_id: int = 0): ...
    def set_device(self, device): ...
    @classmethod
    def seed_everything(cls, seed=None): ...
"""
TODAY = """
from sglang.srt.platforms.device_mixin import DeviceMixin
_OLDER = {"mha": "get_mha_kv_pool_cls"}
class SRTPlatform(DeviceMixin):
    supported_quantization: list[str] = []
    capabilities = object()
    def init_backend(self) -> None: ...
    def get_graph_runner_cls(self): ...
    def get_kv_pool_cls(self, *, kind):
        older = getattr(self, _OLDER[kind], None)
"""
OLDER = """
from sglang.srt.platforms.device_mixin import DeviceMixin
class SRTPlatform(DeviceMixin):
    def init_backend(self) -> None: ...
    def get_graph_runner_cls(self): ...
    def get_mha_kv_pool_cls(self): ...
    def support_cuda_graph(self): ...
"""
RUNNER = "from sglang.srt.platforms import current_platform\ncurrent_platform.tune_for(1)\n"
VENDOR_IMPORTS = (
    "import torch_of_the_vendor\n"
    "from sglang.srt.platforms.interface import SRTPlatform\n"
    "from sglang.srt.platforms.device_mixin import DeviceMixin\n"
)


@pytest.fixture
def host(command):
    """Installs a host of a version, whose modules cannot be imported."""

    def install(version: str = "0.5.23") -> None:
        folder = command.folder / "sglang" / "srt" / "platforms"
        folder.mkdir(parents=True)
        refuse = "raise SystemExit('imported')\n"
        for package in (folder.parents[1], folder.parent, folder):
            (package / "__init__.py").write_text(refuse)
        interface = TODAY if version == "0.5.23" else OLDER
        (folder / "interface.py").write_text(refuse + interface)
        (folder / "device_mixin.py").write_text(refuse + MIXIN)
        (folder.parent / "model_runner.py").write_text(refuse + RUNNER)
        info = command.folder / f"sglang-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")

    return install


def vendor(command, source: str, answer: str = "return 'ven_cls:Ven'") -> None:
    """Installs a platform `ven` whose class is in `ven_cls`."""
    command.install(
        "ven",
        {"sglang.srt.platforms": {"ven": "ven_plugin:activate"}},
        ven_plugin=f"def activate():\n    {answer}\n",
        ven_cls=source,
    )


def on_host(body: str, bases: str = "SRTPlatform") -> str:
    return f"{VENDOR_IMPORTS}class Ven({bases}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"


def found(command, status: int) -> list[dict]:
    findings = command.json("doctor", "--source-only", status=status)["findings"]
    return [finding for finding in findings if finding["id"] not in ("platform-decided", "platform-declined")]


# Classes on SGLang's own base


SOUND = """
_enum = 1
device_name = "ven"
capabilities = undefined_name(supports_triton=True)
supported_quantization = ["fp8"]
def init_backend(self): self.load_library()
def load_library(self): ...
def get_graph_runner_cls(self, **options): ...
def get_device(self, device_id=0, extra=None): ...
def tune_for(self, size): ...
@classmethod
def seed_everything(cls, seed=None): ...
@vendor_decorator
def set_device(): ...
def _anything(self): ...
BLOCK = 16
"""


def test_a_sound_class_gives_no_finding_and_is_not_imported(command, host) -> None:
    """Own helpers that the vendor's code uses, and names that the host reads of a platform, are alive."""
    host()
    vendor(command, on_host(SOUND))
    assert found(command, 0) == []


@pytest.mark.parametrize(
    ("body", "id_", "severity", "words"),
    [
        (
            "def support_cuda_graph(self): return True",
            "override-dead",
            "problem",
            ["SGLang 0.5.23 does not call Ven.support_cuda_graph", "0.5.21", "capabilities.graph_capture"],
        ),
        (
            "def support_cuda_graph(self): return True\ncapabilities = anything()",
            "override-not-called",
            "note",
            ["does not call Ven.support_cuda_graph", "capabilities.graph_capture answers here"],
        ),
        (
            "def get_mha_kv_pool_cls(self): ...",
            "override-older-name",
            "warning",
            ["SGLang 0.5.23 still serves", "get_kv_pool_cls(kind='mha')"],
        ),
        (
            "def get_grph_runner_cls(self): ...",
            "override-dead",
            "warning",
            ["Ven.get_grph_runner_cls", "rename it to get_graph_runner_cls"],
        ),
        (
            "def finalize_server_args(self, server_args): ...",
            "override-dead",
            "warning",
            ["Ven.finalize_server_args", "sglang_platform.core's SRTPlatform"],
        ),
        (
            "def set_device(self): ...",
            "override-signature",
            "problem",
            ["Ven.set_device()", "lost parameter 'device'", "write it as set_device(device)"],
        ),
        (
            "def init_backend(self, fast): ...",
            "override-signature",
            "problem",
            ["requires a new parameter 'fast'"],
        ),
        (
            "def set_device(self, where): ...",
            "override-signature",
            "warning",
            ["renames parameter 'device' to 'where'"],
        ),
        (
            "def supported_quantization(self): ...",
            "override-kind",
            "problem",
            ["is a method", "reads supported_quantization as an attribute"],
        ),
        (
            "get_graph_runner_cls = None",
            "override-kind",
            "problem",
            ["is a value", "calls get_graph_runner_cls()"],
        ),
    ],
)
def test_one_fault_in_a_class_on_the_host(command, host, body, id_, severity, words) -> None:
    host()
    vendor(command, on_host(body))
    (finding,) = found(command, int(severity == "problem"))
    assert (finding["id"], finding["severity"]) == (id_, severity)
    assert finding["plugin"]["distribution"] == "ven-dist"
    assert finding["why"]
    assert finding["fix"]
    text = " ".join(map(str, finding.values()))
    assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("def support_cuda_graph(self): return True", []),
        ("capabilities = anything()", [("override-dead", "problem")]),
        ("capabilities = anything()\ndef support_cuda_graph(self): ...", [("override-not-called", "note")]),
        ("def post_load_model(self, model): ...", [("override-dead", "warning")]),
    ],
)
def test_today_s_names_on_an_older_host(command, host, body, expected) -> None:
    host("0.5.20")
    vendor(command, on_host(body))
    findings = found(command, int("problem" in dict(expected).values()))
    assert [(finding["id"], finding["severity"]) for finding in findings] == expected


def test_a_mixin_behind_the_host_s_class_never_answers(command, host) -> None:
    host()
    methods = "    def get_graph_runner_cls(self): ...\n    def get_device(self, device_id=0): ...\n"
    mixin = f"class Mixin(DeviceMixin):\n{methods}"
    vendor(command, on_host("...", "SRTPlatform, Mixin").replace("class Ven", f"{mixin}class Ven"))
    (finding,) = found(command, 1)
    assert finding["id"] == "override-unreached"
    assert "Mixin.get_graph_runner_cls is never reached" in finding["what"]
    assert finding["fix"] == "put Mixin first in the bases of Ven"


def test_bases_are_followed_through_other_modules(command, host) -> None:
    host()
    sources = {
        "__init__": "def activate():\n    return 'ven.platform:Ven'\n",
        "platform": "from ven.shared import *\nimport ven.bases as bases\nclass Ven(bases.Base, Extra): ...\n",
        "shared": "class Extra:\n    def set_device(self): ...\n",
        "bases": "try:\n    from ven.real import Base\nexcept ImportError:\n    Base = object\n",
        "real": "from sglang.srt.platforms import interface\n"
        "class Base(interface.SRTPlatform):\n    def get_device(self): ...\n",
    }
    (command.folder / "ven").mkdir()
    modules = {f"ven/{name}": source for name, source in sources.items()}
    command.install("ven", {"sglang.srt.platforms": {"ven": "ven:activate"}}, **modules)
    ids = [(finding["id"], finding["what"].partition("(")[0]) for finding in found(command, 1)]
    assert ids == [
        ("override-signature", "Base.get_device"),
        ("override-unreached", "Extra.set_device is never reached"),
    ]


def test_a_base_of_a_library_is_said(command, host) -> None:
    host()
    vendor(command, on_host("...", "torch_of_the_vendor.Base, SRTPlatform"))
    (finding,) = found(command, 0)
    assert finding["id"] == "class-unread"
    assert "torch_of_the_vendor.Base was not looked at" in finding["what"]


@pytest.mark.parametrize(
    ("location", "why", "fix"),
    [
        ("ven_cls:Vne", "ven_cls has no 'Vne'", "did you mean ven_cls:Ven?"),
        ("ven_class.Ven", "no module 'ven_class'", "did you mean ven_cls"),
        ("gone.mod:Ven", "no module 'gone'", "correct what activate() returns"),
    ],
)
def test_a_platform_class_that_is_not_there(command, location, why, fix) -> None:
    vendor(command, "class Ven: ...", f"return {location!r}")
    (finding,) = found(command, 1)
    assert finding["id"] == "platform-class-nowhere"
    assert why in finding["why"]
    assert fix in finding["fix"]


def test_a_platform_named_by_variable_is_read(command, host) -> None:
    host()
    (command.folder / "mine.py").write_text(on_host("def set_device(self): ..."))
    findings = command.json("doctor", "--source-only", status=1, SGLANG_PLATFORM_PLUGIN="mine=mine:Ven")[
        "findings"
    ]
    assert (findings[0]["id"], findings[0]["plugin"]["name"]) == ("override-signature", "mine")
