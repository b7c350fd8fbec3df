"""`sglang-platform list | info | doctor | hooks report`: what they print, and the exit status scripts rely on."""

from __future__ import annotations

import pytest

HERE = "print('chatter'); return 'here_cls:Platform'"
ABSENT = "from sglang_platform.core import PlatformUnavailable; raise PlatformUnavailable('no /dev/absent')"
UNFIT = (
    "from sglang_platform.core import PlatformUnavailable; "
    "raise PlatformUnavailable('torch is a CPU build', fix='install another torch')"
)
BAD = "raise RuntimeError('driver gone')"


# list


def test_list_says_what_is_installed_and_imports_none_of_it(command) -> None:
    command.platform("bad", BAD)
    (command.folder / "bad_plugin.py").write_text("raise SystemExit('imported')")
    document = command.json("list")
    assert document == {
        "plugins": [
            {
                "kind": "platform",
                "name": "bad",
                "distribution": "bad-dist",
                "version": "1.0",
                "entry_point": "bad_plugin:activate",
                "contract": "v1",
            },
            {
                "kind": "general",
                "name": "sglang_platform_core",
                "distribution": "sglang-platform-core",
                "version": "1.0",
                "entry_point": "sglang_platform.core.sglang.start.general_plugin:load",
                "contract": None,
            },
        ],
        "unreadable": [],
    }
    run = command("list")
    assert run.returncode == 0
    assert all(word in run.stdout for word in ("platform", "bad-dist", "bad_plugin:activate", "v1"))


def test_list_explain_tells_the_decision(command) -> None:
    command.platform("here", HERE)
    command.platform("absent", ABSENT)
    decision = command.json("list", "--explain")["decision"]
    assert decision["outcome"] == "here (here-dist 1.0) is the platform: here_cls:Platform"
    assert [(c["origin"]["name"], c["outcome"]) for c in decision["candidates"]] == [
        ("absent", "declined"),
        ("here", "chosen"),
    ]
    run = command("list", "--explain")
    assert run.returncode == 0
    assert all(word in run.stdout for word in ("no /dev/absent", "chosen", "is the platform"))
    assert "chatter" in run.stderr
    assert "chatter" not in run.stdout


def test_list_explain_of_a_refusal_gives_the_trace_and_status_1(command) -> None:
    command.platform("bad", BAD)
    document = command.json("list", "--explain", status=1)
    assert document["decision"]["error"]["type"] == "PluginFailed"
    run = command("list", "--explain")
    assert run.returncode == 1
    assert "failed" in run.stdout
    assert "fix:    correct bad_plugin:activate" in run.stderr
    assert "Traceback" not in run.stderr


def test_list_shows_metadata_that_cannot_be_read(command) -> None:
    command.install("broken", {})
    (command.folder / "broken_dist-1.0.dist-info" / "entry_points.txt").write_text(
        "[sglang.srt.plugins]\nnonsense\n"
    )
    (unreadable,) = command.json("list")["unreadable"]
    assert "broken_dist-1.0.dist-info" in unreadable["path"]
    assert "cannot be read" in command("list").stdout


# info


def test_info_tells_the_platform_why_and_the_versions(command) -> None:
    command.platform("here", HERE)
    document = command.json("info")
    assert document["platform"] == {
        "plugin": "here",
        "distribution": "here-dist",
        "distribution_version": "1.0",
        "class": "here_cls.Platform",
        "device_name": "made",
        "device_type": "cpu",
        "why": "here (here-dist 1.0) is the platform: here_cls:Platform",
    }
    versions = document["versions"]
    assert (versions["core"], versions["contract"], versions["sglang"]) == ("1.0", 1, None)
    run = command("info")
    assert run.returncode == 0
    assert "here_cls.Platform" in run.stdout


def test_info_reads_the_host_s_version_from_its_metadata(command) -> None:
    command.install("sglang", {}, sglang="raise SystemExit('imported')")
    info = command.folder / "sglang_dist-1.0.dist-info"
    info.rename(command.folder / "sglang-0.5.23.dist-info")
    (command.folder / "sglang-0.5.23.dist-info" / "METADATA").write_text("Name: sglang\nVersion: 0.5.23\n")
    assert command.json("info")["versions"]["sglang"] == "0.5.23"


def test_info_without_a_plugin_gives_the_base_platform(command) -> None:
    platform = command.json("info")["platform"]
    assert platform["plugin"] is None
    assert platform["class"] == "sglang_platform.core.contract.srt.SRTPlatform"
    assert platform["why"] == "no platform plugin is installed"


def test_info_of_a_refusal_gives_the_reason_and_status_1(command) -> None:
    document = command.json("info", status=1, SGLANG_PLATFORM="nowhere")
    assert document["error"]["type"] == "PluginNotFound"
    run = command("info", SGLANG_PLATFORM="nowhere")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("SGLANG_PLATFORM='nowhere', but no platform plugin is installed\n  why:")


# doctor


def test_doctor_of_a_sound_installation_gives_status_0(command) -> None:
    command.platform("here", HERE)
    found = [(finding["severity"], finding["id"]) for finding in command.json("doctor")["findings"]]
    assert found == [("note", "platform-decided"), ("note", "sources-unread")]
    run = command("doctor")
    assert run.returncode == 0
    assert run.stdout.splitlines()[-1] == "no problem found in what was looked at; 1 note says what was not"


def test_doctor_tells_each_problem_with_its_fix_and_gives_status_1(command) -> None:
    command.install("old", {"sglang.platform_plugins": {"old": "old_plugin:activate"}})
    command.platform("bad", BAD)
    findings = command.json("doctor", status=1)["findings"]
    problems = [finding for finding in findings if finding["severity"] == "problem"]
    assert [problem["plugin"]["distribution"] for problem in problems] == ["old-dist", "bad-dist"]
    assert all(problem["why"] and problem["fix"] for problem in problems)
    run = command("doctor")
    assert run.returncode == 1
    assert "problem: the entry-point group 'sglang.platform_plugins' is read by nobody" in run.stdout
    assert "  fix:    move it to 'sglang.srt.platforms'" in run.stdout
    last = "2 problems found in what was looked at; 1 note says what was not"
    assert run.stdout.splitlines()[-1] == last


# hooks report

HOOKS = """
from sglang_platform.core.hooks.registry import HookRegistry
def register():
    print("chatter")
    HookRegistry.register("some_engine:generate", lambda result: None)
"""


def test_hooks_report_gives_each_hook(command) -> None:
    command.install("mine", {"sglang.srt.plugins": {"mine": "mine_hooks:register"}}, mine_hooks=HOOKS)
    (command.folder / "some_engine.py").write_text("def generate(): return 1\n")
    (row,) = command.json("hooks", "report")["hooks"]
    assert (row["target"], row["plugin"], row["state"]) == ("some_engine:generate", "mine", "pending")
    run = command("hooks", "report")
    assert run.returncode == 0
    assert "some_engine:generate" in run.stdout


def test_hooks_report_without_hooks(command) -> None:
    assert command("hooks", "report").stdout == "no hook is registered\n"


def test_hooks_report_of_a_hook_without_a_target_gives_status_1(command) -> None:
    command.install("mine", {"sglang.srt.plugins": {"mine": "mine_hooks:register"}}, mine_hooks=HOOKS)
    (command.folder / "some_engine.py").write_text("def generates(): return 1\n")
    assert command.json("hooks", "report", status=1)["error"]["type"] == "HookTargetError"
    run = command("hooks", "report")
    assert run.returncode == 1
    assert "some_engine" in run.stderr
    assert "Traceback" not in run.stderr


# The command as a whole


@pytest.mark.parametrize("arguments", [["frobnicate"], ["list", "--nonsense"], ["hooks", "frobnicate"]])
def test_what_is_not_understood_gives_status_2(command, arguments) -> None:
    assert command(*arguments).returncode == 2


def test_help_names_every_subcommand_and_the_exit_status(command) -> None:
    run = command("--help")
    assert run.returncode == 0
    assert all(word in run.stdout for word in ("list", "info", "doctor", "hooks", "Exit status"))


@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "--explain", "--json"], ["doctor"], ["hooks", "report"]]
)
def test_no_command_that_only_looks_imports_torch_or_sglang(run_program, arguments) -> None:
    """In this very environment, with whatever is installed in it."""
    run_program("run_command_lightly.py", *arguments)


# The diffusion runtime


def _for_pictures(command, name: str, activate: str, identity: str = "OOT") -> None:
    (command.folder / f"{name}_mm.py").write_text(
        "from sglang_platform.core import MMPlatform, PlatformEnum, mm_platform_plugin\n"
        f"class Platform(MMPlatform):\n    _enum = PlatformEnum.{identity}\n    device_name = {name!r}\n"
        f"@mm_platform_plugin\ndef activate():\n    {activate}\n"
    )
    info = command.folder / f"{name}_mm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-mm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[sglang.multimodal_gen.platforms]\n{name} = {name}_mm:activate\n"
    )


def test_list_and_info_tell_both_runtimes(command) -> None:
    command.platform("here", HERE)
    _for_pictures(command, "pictures", "return 'pictures_mm:Platform'")
    document = command.json("list", "--explain")
    assert [(one["kind"], one["name"]) for one in document["plugins"] if one["name"] == "pictures"] == [
        ("diffusion platform", "pictures")
    ]
    assert document["diffusion_decision"]["outcome"].startswith("pictures (pictures-mm 1.0) is the platform")
    assert document["decision"]["outcome"].startswith("here (here-dist 1.0) is the platform")
    assert "diffusion runtime: pictures (pictures-mm 1.0) is the" in command("list", "--explain").stdout


def test_info_tells_why_the_diffusion_platform_is_refused(command) -> None:
    _for_pictures(command, "pictures", "return 'pictures_mm:Platform'", identity="CUDA")
    document = command.json("info")
    assert document["platform"]["plugin"] is None
    assert "_enum CUDA" in document["diffusion_platform"]["refused"]


def test_doctor_counts_a_refused_diffusion_platform_as_a_problem(command) -> None:
    _for_pictures(command, "npu", "return 'npu_mm:Platform'")
    run = command("doctor", "--json")
    assert run.returncode == 1
    assert "named 'npu', as a platform of the host's own" in run.stdout


def test_doctor_tells_what_a_diffusion_plugin_declined_with(command) -> None:
    _for_pictures(command, "pictures", ABSENT)
    run = command("doctor")
    assert "pictures declined, for the diffusion runtime" in run.stdout
    assert "no /dev/absent" in run.stdout


def test_doctor_calls_an_environment_that_does_not_fit_the_device_a_problem(command) -> None:
    """A device without what it needs is no machine without the device: somebody expects it to serve."""
    command.platform("gpu", UNFIT)
    (finding,) = [
        one for one in command.json("doctor", status=1)["findings"] if one["id"] == "platform-unfit"
    ]
    assert finding["severity"] == "problem"
    assert finding["what"] == "gpu declined, and its device is here"
    assert (finding["why"], finding["fix"]) == ("torch is a CPU build", "install another torch")
    assert finding["plugin"]["distribution"] == "gpu-dist"
    candidate = command.json("list", "--explain")["decision"]["candidates"][0]
    assert (candidate["outcome"], candidate["fix"]) == ("declined", "install another torch")
