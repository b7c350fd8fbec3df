"""All that can be run on this repository. `nox -l` lists the sessions; each docstring says what one does.

Two environments are built once and kept under `.nox/`: `host` (SGLang, unmodified, with a CPU build of torch, and our
packages in editable form), and a fresh one per run for the built wheels.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zipfile import ZipFile

import nox
from nox.command import CommandFailed

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent
HOST = ROOT / ".nox" / "host"
SGLANG = "0.5.23"
OLDER = ["0.5.11"]
"""Served in CI: the oldest. `nox -s host-matrix` takes all."""

RELEASES = [*OLDER, "0.5.13", "0.5.15", "0.5.18", "0.5.20", SGLANG]
"""The matrix, oldest first."""

KNOWN_WHEELS = ["--wheels", os.environ["SGLANG_WHEELS"]] if os.environ.get("SGLANG_WHEELS") else []
"""A folder of SGLang's wheels, looked in before one is downloaded."""

TRITON_VERSIONS = ["3.6.0", "3.7.1", "3.8.0"]
"""What torch 2.11, 2.13 and 2.14 bring; SGLang 0.5.23 pins the last."""

CORE, DEVTOOLS = "packages/sglang-platform-core", "packages/sglang-platform-devtools"
PACKAGES = [
    CORE,
    DEVTOOLS,
    "packages/sglang-platform-cuda",
    "packages/sglang-platform-rocm",
    "packages/sglang-platform-example-oot",
    "conformance",
]
NAMES = ("core", "devtools", "cuda", "rocm", "example-oot", "conformance")
COUPLED = [one for one in PACKAGES if one not in (DEVTOOLS, "conformance")]
"""What hooks or calls SGLang; the others only read it."""

_MISSPELT = "docs/faults.md,docs/mutants*.md,docs/device_operators.md"
"""Pages that quote misspelt names on purpose."""
_PAGES = [path.name for path in sorted(ROOT.glob("*.md"))] + [f"{package}/README.md" for package in PACKAGES]
"""The pages that are not on the site."""
TESTS = ["tests", *(f"{package}/tests" for package in PACKAGES)]
ENGINES_OF_CI = [
    "conformance/tests/host/test_equality.py",
    "conformance/tests/host/test_serve.py",
    "conformance/tests/host/test_hooks_in_processes.py",
    "tests/minimal_platform",
    "conformance/tests/host/test_generate.py",
    "conformance/tests/host/test_tensor_parallel.py",
    "conformance/tests/host/test_faults.py",
]
"""Tokens, a server, hooks in every process, the smallest platform, the demo, two ranks, faults: some three minutes. In
this order two workers, of which each has the next file at hand, end together."""

NIGHTLY = [
    "end_to_end",
    "long",
    "mutants",
    "equality",
    "families",
    "host-matrix",
    "features",
    "kits",
    "conformance-host",
    "conformance-cuda",
    "conformance-rocm",
    "foreign_starts",
    "interpreted_engines",
    "gpu_rehearsal",
    "fuzz_requests",
    "fuzz_device",
    "device_operators",
    "sanitizers",
    "soak",
    "ray",
    "triton_versions",
    "vendor_copy",
    "release",
    "links",
]
"""What `tests` leaves out."""

TWO_FILES = [
    "-n",
    "2",
    "--dist",
    "loadfile",
    "--no-loadscope-reorder",
    "--durations",
    "60",
    "--durations-min",
    "5",
]
"""Two test files at a time, since SGLang's start and most checks keep one core busy; the slowest tests are shown."""


def host(session: nox.Session) -> str:
    """Build the host environment, or bring it up to date; returns its Python."""
    python = HOST / "bin" / "python"
    inputs = [ROOT / "constraints.txt", *sorted((ROOT / "environments").glob("*.*"))]
    inputs += [ROOT / package / "pyproject.toml" for package in PACKAGES]
    inputs += sorted(ROOT.glob(f"{DEVTOOLS}/src/sglang_platform/devtools/requirements/*.py"))
    state = hashlib.sha256(b"".join(path.read_bytes() for path in inputs) + sys.version.encode()).hexdigest()
    stamp = HOST / "built-from"
    if python.exists() and stamp.exists() and stamp.read_text() == state:
        compile_sources(session, str(python))
        return str(python)
    session.log(
        f"building the environment with SGLang {SGLANG} in {HOST.relative_to(ROOT)}: 2 to 5 minutes, once"
    )
    if not python.exists():
        session.run(sys.executable, "-m", "venv", str(HOST), external=True)
    pip = [str(python), "-m", "pip", "install", "--progress-bar", "off", "-q", "--no-compile"]
    pip += ["-c", "constraints.txt"]
    session.run(*pip, "-e", CORE, "-e", DEVTOOLS, external=True)  # with them, the command that knows the rest
    lists = [sglang_requirements(session, SGLANG), "environments/diffusion.txt", "environments/tools.txt"]
    session.run(*pip, *(word for file in lists for word in ("-r", str(file))), external=True)
    rest = [word for package in PACKAGES if package not in (CORE, DEVTOOLS) for word in ("-e", package)]
    session.run(*pip, "--no-deps", f"sglang=={SGLANG}", *rest, external=True)
    site = next((HOST / "lib").glob("python*/site-packages"))
    make_torchvision_importable(site)
    # On all cores, where pip has one. Files that are no Python of this version stay as they are.
    session.run(
        str(python), "-m", "compileall", "-qq", "-j", "0", str(site), external=True, success_codes=[0, 1]
    )
    stamp.write_text(state)
    compile_sources(session, str(python))
    return str(python)


def compile_sources(session: nox.Session, python: str) -> None:
    """Ours are in editable form: where PYTHONDONTWRITEBYTECODE is set, every process would compile them anew."""
    folders = [f"{package}/src" for package in PACKAGES]
    session.run(python, "-m", "compileall", "-q", *folders, external=True, silent=True)


def make_torchvision_importable(site: Path) -> None:
    """In an environment whose torch is for CPUs and whose torchvision is the package index's."""
    shutil.copy(ROOT / "environments" / "torchvision_cpu_ops.py", site / "_torchvision_cpu_ops.py")
    (site / "_torchvision_cpu_ops.pth").write_text("import _torchvision_cpu_ops\n")


def sglang_requirements(session: nox.Session, version: str, command: str | None = None) -> Path:
    """The requirements file of a release, or of a checkout, for the example's device, written by our command."""
    file = ROOT / ".nox" / "requirements" / f"{Path(version).name}.txt"
    words = (command or str(HOST / "bin" / "sglang-platform"), "host", "requirements", "--host", version)
    # SGLang would load the plugin of this package beside those under test.
    words += ("--device", "example_oot", "--without", "smg-grpc-servicer")
    session.run(*words, "--output", str(file), *KNOWN_WHEELS, external=command is None)
    return file


def run(session: nox.Session, *command: str, **environment: str) -> None:
    session.run(
        *command,
        external=True,
        env={**environment, "PATH": f"{HOST / 'bin'}{os.pathsep}{os.environ['PATH']}"},
    )


@nox.session(venv_backend="none")
def generate(session: nox.Session) -> None:
    """The main job: SGLang serves a model through the example platform and proves it.

    `nox -s generate -- --prompt "Hello" --model-path DIR --max-new-tokens 64`; `-- --help` lists the options.
    """
    python = host(session)
    run(session, python, "-m", "sglang_platform.conformance.host.generate", *session.posargs)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """All that CI runs: lint, types, unit tests, a few engines, the example through the conformance suite, the oldest
    SGLang, the documentation, and the built wheels in a fresh environment. The rest is `nightly`."""
    session.notify("lint")
    session.notify("unit")
    session.notify("end_to_end", posargs=ENGINES_OF_CI)
    session.notify("side_by_side")


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """All that `tests` leaves out, for which it is too slow: hours. `.github/workflows/nightly.yml` gives each session
    a machine of its own. A release waits for it."""
    for name in NIGHTLY:
        session.notify(name)


GITHUB_FILES = {
    "workflows": [".github/workflows/*.yml", "packages/*/.github/workflows/*.yml"],
    "issue-forms": [".github/ISSUE_TEMPLATE/[0-9]*.yml"],
    "issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
}
"""Files that GitHub reads, by the name of their schema."""


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """ruff (lint and format), mypy (strict, on core and on the tests of the house), and the forms of `.github/`."""
    python = host(session)
    run(session, python, "-m", "ruff", "check", ".")
    run(session, python, "-m", "ruff", "format", "--check", ".")
    run(session, python, "-m", "mypy")
    for schema, patterns in GITHUB_FILES.items():
        files = [str(path) for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        run(session, python, "-m", "check_jsonschema", "--builtin-schema", f"vendor.github-{schema}", *files)


@nox.session(venv_backend="none")
def unit(session: nox.Session) -> None:
    """The tests that start no engine, without the `long` ones; the seconds of each go to `reports/unit.xml`. Arguments
    go to pytest."""
    python = host(session)
    which = "not engine and not long"
    seconds = ("--junit-xml", "reports/unit.xml")
    run(session, python, "-m", "pytest", "-q", "-m", which, *TWO_FILES, *seconds, *(session.posargs or TESTS))


PYTHONS = ["3.10", "3.12", "3.13"]
"""What the metadata promises beside the Python of all other sessions."""

LIGHT_TESTS = [
    *(f"{CORE}/tests/{folder}" for folder in ("counters", "discovery", "hooks", "ops")),
    *(f"{DEVTOOLS}/tests/{folder}" for folder in ("requirements", "source")),
]
NEED_TORCH = (
    "discovery/test_damaged_install.py",
    "hooks/test_hooks_compiled.py",
)


@nox.session(python=PYTHONS)
def pythons(session: nox.Session) -> None:
    """Core and devtools on the other Pythons, without torch and SGLang. Arguments go to pytest."""
    session.install(
        "-q", "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "-e", CORE, "-e", DEVTOOLS
    )
    ignored = [word for file in NEED_TORCH for word in ("--ignore", f"{CORE}/tests/{file}")]
    # It compares with the release of importlib_metadata that `constraints.txt` pins.
    ignored += ["--deselect", f"{CORE}/tests/discovery/test_scan.py::test_equal_to_importlib_metadata"]
    which = "not host and not engine and not long"
    session.run("pytest", "-q", "-m", which, *TWO_FILES, *ignored, *(session.posargs or LIGHT_TESTS))


@nox.session(name="end_to_end", venv_backend="none")
def end_to_end(session: nox.Session) -> None:
    """The tests that start SGLang: token equality on a pairwise subset, serving, faults. Arguments go to pytest."""
    python = host(session)
    which = "engine and not long"
    run(session, python, "-m", "pytest", "-v", "-m", which, *TWO_FILES, *(session.posargs or TESTS))


@nox.session(venv_backend="none")
def long(session: nox.Session) -> None:
    """The tests that CI leaves out, since it runs others of their kind: the rest of the pairwise subset, of the healthy
    platforms, of defects of interpreted kernels, of signals, kits and modes. An hour and more."""
    python = host(session)
    run(session, python, "-m", "pytest", "-v", "-m", "long", *TWO_FILES, *(session.posargs or TESTS))


@nox.session(venv_backend="none")
def equality(session: nox.Session) -> None:
    """Token equality with transformers over the full matrix; `-- --pairwise` for the subset that CI runs."""
    python = host(session)
    run(session, python, "-m", "sglang_platform.conformance.host.matrix", *session.posargs)


@nox.session(venv_backend="none")
def families(session: nox.Session) -> None:
    """Families of models on the example, page sizes and graphs pairwise, and whose parts served them; writes
    `docs/families.md`. `-- gemma3 glm4` runs these alone, the rest of the page stays: some twenty minutes for all."""
    python = host(session)
    module = "tools.families"
    run(session, python, "-m", module, "--output", "docs/families.md", *session.posargs)


@nox.session(venv_backend="none")
def architecture(session: nox.Session) -> None:
    """Draw the rooms of the house and what imports what, for `docs/architecture.md`; print the lines of each room.

    The rules themselves are tests, in `tests/architecture`, and run with `unit`.
    """
    python = host(session)
    for script in ("draw.py", "way_of_k.py", "line_counts.py"):
        run(session, python, f"tests/architecture/{script}")


MATRIX_WHEELS = [
    *PACKAGES,
    "docs/examples/registries-plugin",
    "docs/examples/older-plugin",
    "docs/examples/migrating/after",
    "environments/probe",
]


CHECKOUT = "tools.versions.checkout"


def called(session: nox.Session, version: str) -> str:
    """A version as it was given; of a checkout, given by its folder, the one that its build would have."""
    if not Path(version).is_dir():
        return version
    python = str(HOST / "bin" / "python")
    return str(session.run(python, "-m", CHECKOUT, version, external=True, silent=True)).split()[-1]


def matrix_wheels(session: nox.Session, python: str) -> Path:
    """The wheels that go into every environment of the matrix, built anew."""
    wheels = ROOT / ".nox" / "host-matrix" / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    for package in MATRIX_WHEELS:
        with session.chdir(package):
            run(session, python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels))
    return wheels


def matrix_environment(session: nox.Session, version: str, wheels: Path) -> str:
    """A light environment of one SGLang, a release or a checkout: its own packages first, torch and the rest shared
    with `host`."""
    folder = ROOT / ".nox" / "host-matrix" / ("checkout" if Path(version).is_dir() else version)
    python = folder / "bin" / "python"
    if not python.exists():
        session.run(str(HOST / "bin" / "python"), "-m", "venv", str(folder), external=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    shared = next((HOST / "lib").glob("python*/site-packages"))
    for left_over in site.glob("dev_*.pth"):
        left_over.unlink()
    (site / "shared_with_host.pth").write_text(f"{shared}\n")
    make_torchvision_importable(site)
    # Beside the shared SGLang, whose own list is not held, pip would warn of each package that this one pins otherwise.
    pip = [str(python), "-m", "pip", "install", "-q", "--progress-bar", "off", "--no-warn-conflicts"]
    wanted, stamp = sglang_requirements(session, version), folder / "built-from"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        session.run(*pip, "-r", str(wanted), external=True)
        if not Path(version).is_dir():
            session.run(*pip, "--no-deps", f"sglang=={version}", external=True)
        stamp.write_text(wanted.read_text())
    if Path(version).is_dir():
        session.run(str(HOST / "bin" / "python"), "-m", CHECKOUT, version, "--into", str(site), external=True)
    session.run(
        *pip, "--no-deps", "--force-reinstall", *map(str, sorted(wheels.glob("*.whl"))), external=True
    )
    return str(python)


@nox.session(name="host-matrix", venv_backend="none")
def host_matrix(session: nox.Session) -> None:
    """The same wheels on every supported SGLang: checks, a generation each, `docs/support_matrix.md`.

    Arguments are versions or folders of checkouts, by default all releases. Five minutes on two cores, the first time
    longer. The page is written when all are run.
    """
    python = host(session)
    reports, wheels = ROOT / "reports" / "host-matrix", matrix_wheels(session, python)
    releases = session.posargs or RELEASES
    for version in releases:
        matrix_row(session, version, wheels, reports)
    page = [] if session.posargs else ["--page", "docs/support_matrix.md"]
    run(session, python, "-m", "tools.versions.report", str(reports),
        *(called(session, version) for version in releases), *page)  # fmt: skip


def matrix_row(session: nox.Session, version: str, wheels: Path, reports: Path) -> None:
    """The checks and the generation of one release, into `reports`."""
    inside, modules = matrix_environment(session, version, wheels), "tools.versions"
    models = os.environ.get("SGLANG_PLATFORM_TEST_MODELS", str(ROOT / "models"))
    out = [f"{reports}/{called(session, version)}-{part}.json" for part in ("check", "serve")]
    session.run(inside, "-m", f"{modules}.check", "--out", out[0], external=True,
                env={"SGLANG_PLATFORM": "host_matrix_probe"})  # fmt: skip
    session.run(inside, "-m", f"{modules}.serve", "--models", models, "--out", out[1], external=True)
    session.run(inside, "-m", f"{modules}.migrated", "--models", models, external=True)


NEWEST_STEPS = ("report", "matrix", "features", "kits")


@nox.session(venv_backend="none")
def newest(session: nox.Session) -> None:
    """The newest SGLang on the index, or the version or checkout given: what changed for our packages since the newest
    release before it that is known here, then the matrix, the features and SGLang's test kits on it; the page is
    `reports/newest/VERSION/README.md`. `-- 0.5.22 report matrix` takes these steps alone, `-- FOLDER` a checkout of
    SGLang's main. Fails where a step failed.
    """
    python = host(session)
    versions = [one for one in session.posargs if one not in NEWEST_STEPS]
    steps = [one for one in session.posargs if one in NEWEST_STEPS] or list(NEWEST_STEPS)
    module = "tools.versions.newest"
    version = versions[0] if versions else _newest_on_index(session, python, module)
    folder = ROOT / "reports" / "newest" / called(session, version)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    failed: list[str] = []
    if "report" in steps:
        run(session, python, "-m", module, "report", version, "--known", *RELEASES, "--out", str(folder),
            *KNOWN_WHEELS, "--packages", *COUPLED)  # fmt: skip
    wheels = matrix_wheels(session, python) if set(steps) - {"report"} else None
    for step in steps:
        if wheels is not None and step != "report":
            try:
                _newest_step(session, step, version, wheels, folder)
            except nox.command.CommandFailed:
                failed.append(step)
    run(
        session,
        python,
        "-m",
        module,
        "page",
        folder.name,
        "--out",
        str(folder),
        "--steps",
        *steps,
        "--failed",
        *failed,
    )
    session.log(f"the page: {(folder / 'README.md').relative_to(ROOT)}")
    if failed:
        session.error(f"failed on SGLang {version}: {', '.join(failed)}")


def _newest_on_index(session: nox.Session, python: str, module: str) -> str:
    found = session.run(python, "-m", module, "ask-index", external=True, silent=True)
    return str(found).strip().splitlines()[-1]


def _newest_step(session: nox.Session, step: str, version: str, wheels: Path, folder: Path) -> None:
    if step == "matrix":
        matrix_row(session, version, wheels, folder / "matrix")
        run(session, str(HOST / "bin" / "python"), "-m", "tools.versions.report",
            str(folder / "matrix"), called(session, version))  # fmt: skip
        return
    inside = matrix_environment(session, version, wheels)
    session.run(
        inside, "-m", "sglang_platform.conformance", "--platform", "example_oot", "--host", "sglang",
        "--level", step, "--report", str(folder / step), external=True, success_codes=[0, 3],
        env={"SGLANG_PLATFORM_TEST_MODELS": os.environ.get("SGLANG_PLATFORM_TEST_MODELS", str(ROOT / "models"))},
    )  # fmt: skip
    run(session, str(HOST / "bin" / "python"), "-m", "tools.versions.newest", "ran",
        str(folder / step))  # fmt: skip


ASSUMPTIONS_OF = tuple(f"0.5.{patch}" for patch in range(11, 23))
"""Releases beside the installed one in `docs/assumptions.md`."""


@nox.session(venv_backend="none")
def assumptions(session: nox.Session) -> None:
    """What SGLang still assumes of CUDA, release by release, from its sources; writes `docs/assumptions.md`.

    Arguments are versions, by default all that are served. `SGLANG_WHEELS` names a folder of wheels.
    """
    python = host(session)
    releases = [*(session.posargs or ASSUMPTIONS_OF), "installed"]
    run(
        session,
        python,
        "-m",
        "tools.assumptions",
        "--output",
        "docs/assumptions.md",
        *KNOWN_WHEELS,
        *releases,
    )


@nox.session(venv_backend="none")
def soak(session: nox.Session) -> None:
    """A server on the example device under everything at once, half an hour; `-- --minutes 2 --clients 16` is shorter,
    `-- --kill` kills each of its processes instead. Figures and plot go to `reports/soak`."""
    command = ("benchmarks/soak.py", "--results", "reports/soak", *session.posargs)
    run(session, host(session), *command, SGLANG_PLATFORM_TEST_MODELS="models")


@nox.session(venv_backend="none")
def foreign_starts(session: nox.Session) -> None:
    """The suite in SGLang on a plugin of others that starts slowly, hangs or ends the process; some 20 minutes."""
    tests = "conformance/tests/framework/test_misbehaving_on_sglang.py"
    run(session, host(session), "-m", "pytest", "-v", tests, *session.posargs, SGLANG_PLATFORM_LONG="1")


@nox.session(venv_backend="none")
def interpreted_engines(session: nox.Session) -> None:
    """The CUDA and ROCm packages whole inside SGLang without a GPU, kernels interpreted; half an hour."""
    tests = "conformance/tests/host/test_interpreted_engines.py"
    run(session, host(session), "-m", "pytest", "-v", tests, *session.posargs, SGLANG_PLATFORM_LONG="1")


@nox.session(venv_backend="none")
def gpu_rehearsal(session: nox.Session) -> None:
    """The first run on a card, rehearsed without one: the folder to carry, then both commands; some 20 minutes."""
    python, folder = host(session), ".nox/gpu_carry"
    run(session, python, "benchmarks/gpu_carry.py", folder)
    for call in ("kernels", "engines"):
        words = ("bash", "benchmarks/gpu_first_run.sh", call, folder, "--pretend")
        run(session, *words, PYTHON=python, OUT=".nox/gpu_rehearsal")


@nox.session(venv_backend="none")
def fuzz_requests(session: nox.Session) -> None:
    """Thousands of requests, right and hostile, against one server on the example device; minutes."""
    command = ("-m", "sglang_platform.conformance.host.fuzz", "example_oot", *session.posargs)
    run(session, host(session), *command, SGLANG_PLATFORM_TEST_MODELS="models")


RAY = "ray==2.60.0"


@nox.session(venv_backend="none")
def ray(session: nox.Session) -> None:
    """SGLang's schedulers as actors under Ray (`--use-ray`), on the example device; Ray is put beside the host."""
    python, beside = host(session), ROOT / ".nox" / "ray"
    session.run(
        python, "-m", "pip", "install", "-q", "--upgrade", "--target", str(beside), RAY, external=True
    )
    run(session, python, "-m", "pytest", "-v", "conformance/tests/host/test_ray.py", *session.posargs,
        PYTHONPATH=str(beside), SGLANG_PLATFORM_TEST_MODELS="models")  # fmt: skip


DEVICE_PROGRAMS = "packages/sglang-platform-example-oot/tests/device/programs"


@nox.session(venv_backend="none")
def fuzz_device(session: nox.Session) -> None:
    """50,000 hostile calls of every operator of the example's C++ device; some ten minutes."""
    run(session, host(session), f"{DEVICE_PROGRAMS}/many_calls/fuzz.py", *session.posargs)


@nox.session(venv_backend="none")
def device_operators(session: nox.Session) -> None:
    """Torch's own tests of its operators on the example's C++ device; writes `docs/device_operators.md`."""
    page = ("--page", "docs/device_operators.md")
    run(session, host(session), f"{DEVICE_PROGRAMS}/many_calls/operator_suite.py", *page, *session.posargs)


@nox.session(venv_backend="none")
def sanitizers(session: nox.Session) -> None:
    """The example's C++ device built with AddressSanitizer and UBSan, then with ThreadSanitizer: no report."""
    run(session, host(session), f"{DEVICE_PROGRAMS}/sanitizers/sanitizers.py", *session.posargs)


def check_platform(session: nox.Session, *arguments: str, **environment: str) -> None:
    """Run the conformance suite; the checkpoints are those of the other sessions."""
    run(
        session,
        host(session),
        "-m",
        "sglang_platform.conformance",
        *arguments,
        *session.posargs,
        SGLANG_PLATFORM_TEST_MODELS=str(ROOT / "models"),
        **environment,
    )


def check_kernels(session: nox.Session, platform: str) -> None:
    """All that can be known about a platform's kernels without its device; compiled code is kept under `.nox/`."""
    cache = str(ROOT / ".nox" / "triton")
    module = "sglang_platform.conformance.kernels"
    run(session, host(session), "-m", module, "--platform", platform, "--cache", cache,
        "--json", f"reports/{platform}/kernels.json")  # fmt: skip


@nox.session(venv_backend="none")
def conformance(session: nox.Session) -> None:
    """The suite on any installed plugin: `nox -s conformance -- --platform NAME [--host sglang] [--level ...]`."""
    check_platform(session)


@nox.session(name="conformance-example-oot", venv_backend="none")
def conformance_example_oot(session: nox.Session) -> None:
    """The suite on the example, in SGLang, to the profile `core`, in three shards, two at once; the report goes to
    `reports/`. Arguments go to the suite, which then runs in one piece."""
    if session.posargs:
        check_platform(session, *CONFORMANCE_OF_CI, "--report", "reports/example_oot")
        return
    shards = shard_commands(session)
    merge_shards(session, list(run_two_at_once(session, shards).values()))


CONFORMANCE_OF_CI = ("--platform", "example_oot", "--host", "sglang", "--profile", "core")


def shard_commands(session: nox.Session, count: int = 3) -> dict[str, list[str]]:
    """What runs each part of the suite on the example, by a name."""
    command = [host(session), "-m", "sglang_platform.conformance", *CONFORMANCE_OF_CI]
    words = {
        at: ("--shard", f"{at}/{count}", "--report", shard_report(at, count)) for at in range(1, count + 1)
    }
    return {f"shard {at} of {count}": [*command, *words[at]] for at in words}


def shard_report(at: int, count: int) -> str:
    return f"reports/example_oot-{at}-of-{count}"


def run_two_at_once(session: nox.Session, commands: dict[str, list[str]]) -> dict[str, tuple[int, str]]:
    """Commands by name, begun in this order, each when one before it ends; the exit status and the output of each."""
    environment = {**os.environ, "SGLANG_PLATFORM_TEST_MODELS": str(ROOT / "models")}
    environment["PATH"] = f"{HOST / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def end(name: str) -> tuple[int, str]:
        began = time.monotonic()
        ran = subprocess.run(
            commands[name], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        session.log(f"{name} ended with {ran.returncode} after {time.monotonic() - began:.0f} s")
        return ran.returncode, ran.stdout

    with ThreadPoolExecutor(2) as two:
        return dict(zip(commands, two.map(end, commands), strict=True))


def merge_shards(session: nox.Session, ended: list[tuple[int, str]]) -> None:
    """One report of all parts; what failed in one is tried again alone."""
    for status, output in ended:
        if status:
            print(output, flush=True)
    shards = [shard_report(at, len(ended)) for at in range(1, len(ended) + 1)]
    merge = (host(session), "-m", "sglang_platform.conformance", "merge", *shards)
    session.run(*merge, "--report", "reports/example_oot", external=True, success_codes=[0, 1])
    outcomes = json.loads((ROOT / "reports" / "example_oot" / "report.json").read_text())["outcomes"]
    wrong = ("failed", "blocked", "unexpected_pass", "suite_failed")
    if failed := [one["id"] for one in outcomes if one["status"] in wrong]:
        session.warn(f"failed beside other work, tried again alone: {', '.join(failed)}")
        check_platform(session, *CONFORMANCE_OF_CI, *(word for one in failed for word in ("--check", one)))


SIDE_BY_SIDE = [["host-matrix", "--", *OLDER], ["wheels"], ["docs"]]
"""Sessions that keep one core busy, or wait for an index."""


@nox.session(venv_backend="none")
def side_by_side(session: nox.Session) -> None:
    """The shards of `conformance-example-oot`, `host-matrix` on the oldest SGLang, `wheels` and `docs`, two at once."""
    shards = shard_commands(session)
    nox_itself = (sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), "-s")
    ended = run_two_at_once(session, {**shards, **{one[0]: [*nox_itself, *one] for one in SIDE_BY_SIDE}})
    failed = {one[0]: ended[one[0]] for one in SIDE_BY_SIDE if ended[one[0]][0]}
    for name, (_, output) in ended.items():
        if name not in shards and name not in failed:
            print(output, flush=True)
    try:
        merge_shards(session, [ended[name] for name in shards])
    finally:
        for _, output in failed.values():  # last, where the end of the log is looked at
            print(output, flush=True)
    if failed:
        raise CommandFailed(f"failed: {', '.join(failed)}")


@nox.session(name="conformance-cuda", venv_backend="none")
def conformance_cuda(session: nox.Session) -> None:
    """The suite on the CUDA package, to the profile `offline`, which needs no GPU and says so. Then its kernels:
    interpreted against float64, compiled for every target, launched under a driver without a device."""
    check_platform(session, "--platform", "cuda", "--profile", "offline", "--report", "reports/cuda")
    check_kernels(session, "cuda")


@nox.session(name="conformance-rocm", venv_backend="none")
def conformance_rocm(session: nox.Session) -> None:
    """The suite on the ROCm package, and its kernels, as `conformance-cuda` does."""
    check_platform(session, "--platform", "rocm", "--profile", "offline", "--report", "reports/rocm")
    check_kernels(session, "rocm")


@nox.session(venv_backend="none")
def triton_versions(session: nox.Session) -> None:
    """Every kernel of both GPU packages compiled by each Triton that releases of torch bring, and held to its limits; a
    table and a report of each under `reports/triton/`. Other versions: `nox -s triton_versions -- 3.9.0`."""
    python = host(session)
    failed = []
    for version in session.posargs or TRITON_VERSIONS:
        folder = ROOT / ".nox" / f"triton-{version}"
        if not folder.is_dir():
            wheel = f"triton=={version}"
            session.run(
                python,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--target",
                str(folder),
                wheel,
                external=True,
            )
        report = f"reports/triton/{version}"
        (ROOT / report).parent.mkdir(parents=True, exist_ok=True)
        try:
            run(session, python, "-m", "sglang_platform.conformance.kernels", "--platform", "cuda,rocm",
                "--skip", "interpret", "--cache", str(folder / "cache"), "--json", f"{report}.json",
                "--table", f"{report}.md", PYTHONPATH=str(folder))  # fmt: skip
        except CommandFailed:
            failed.append(version)
    if failed:
        session.error(f"over their limits with Triton {', '.join(failed)}: see reports/triton/")


@nox.session(name="conformance-host", venv_backend="none")
def conformance_host(session: nox.Session) -> None:
    """The suite on the example to every profile that it claims; starts some twenty engines."""
    arguments = ("--platform", "example_oot", "--host", "sglang", "--report", "reports/example_oot_sglang")
    check_platform(session, *arguments)


@nox.session(venv_backend="none")
def features(session: nox.Session) -> None:
    """Each feature of SGLang in a running engine on the example, release by release; writes `docs/features.md`.

    Arguments are versions or folders of checkouts, by default 0.5.15, 0.5.20 and the newest. Half an hour on two cores.
    """
    python = host(session)
    wheels = matrix_wheels(session, python)
    folder = ROOT / "reports" / "features"
    for version in session.posargs or ["0.5.15", "0.5.20", SGLANG]:
        inside = matrix_environment(session, version, wheels)
        session.run(
            inside, "-m", "sglang_platform.conformance", "--platform", "example_oot", "--host", "sglang",
            "--level", "features", "--report", str(folder / f"example_oot-{called(session, version)}"),
            external=True, success_codes=[0, 1, 3], env={"SGLANG_PLATFORM_TEST_MODELS": str(ROOT / "models")},
        )  # fmt: skip
    command = ["-m", "sglang_platform.conformance", "features", "--output", "docs/features.md"]
    run(session, python, *command, str(folder))


@nox.session(venv_backend="none")
def kits(session: nox.Session) -> None:
    """SGLang's own test kits on the example device, beside SGLang's CPU device; writes `docs/kits.md`.

    `-- record` measures SGLang's CPU device first, and writes how its tests end. `-- FOLDER` runs the kits on a
    checkout of SGLang; its page goes beside its report.
    """
    python = host(session)
    models = {"SGLANG_PLATFORM_TEST_MODELS": str(ROOT / "models")}
    if session.posargs == ["record"]:
        run(session, python, "-m", "sglang_platform.conformance.kits.record", **models)
    folder, output, inside = "reports/kits", "docs/kits.md", python
    if session.posargs and session.posargs != ["record"]:
        (checkout,) = session.posargs
        inside = matrix_environment(session, checkout, matrix_wheels(session, python))
        folder = f"reports/kits-{called(session, checkout)}"
        output = f"{folder}/kits.md"
    session.run(
        inside, "-m", "sglang_platform.conformance", "--platform", "example_oot", "--host", "sglang", "--level",
        "kits", "--report", folder, external=True, success_codes=[0, 1, 3], env=models,
    )  # fmt: skip
    run(session, python, "-m", "sglang_platform.conformance", "kits", "--output", output, folder)


@nox.session(venv_backend="none")
def mutants(session: nox.Session) -> None:
    """Broken platforms, each killed by the check meant for it; writes `docs/mutants.md`. `-- memory` runs one level,
    `-- --resume FILE` keeps verdicts there and goes on from them: some two hours on two cores."""
    python = host(session)
    script, page = "conformance/tests/mutants/run_mutants.py", ["--write", "docs/mutants.md"]
    run(session, python, script, *page, *session.posargs, SGLANG_PLATFORM_TEST_MODELS=str(ROOT / "models"))


@nox.session(venv_backend="none")
def mutants_generated(session: nox.Session) -> None:
    """Every small change of the reference's pools, allocator and attention, made by a tool, against the checks; writes
    `docs/mutants_generated.md`. `-- packages --sample 84` writes its section on core, the example and the kernels for
    GPUs: a sample, hours on two cores."""
    folder, words = "conformance/tests/mutants", list(session.posargs)
    packages = words[:1] == ["packages"]
    script = f"{folder}/packages/run_packages.py" if packages else f"{folder}/run_generated.py"
    run(session, host(session), script, "--write", "docs/mutants_generated.md", *words[packages:])


@nox.session(venv_backend="none")
def hardware(session: nox.Session) -> None:
    """Write `docs/hardware_support.md` from the reports in `reports/`, or from the folders given."""
    table = ["-m", "sglang_platform.conformance", "table", "--output", "docs/hardware_support.md"]
    run(session, host(session), *table, *(session.posargs or ["reports"]))


@nox.session(venv_backend="none")
def docs(session: nox.Session) -> None:
    """Build the site into `site/`: pages, the reference, search. A warning is an error, as is a misspelt word or a link
    within the site that leads nowhere."""
    python = host(session)
    run(
        session,
        python,
        "-m",
        "codespell_lib",
        "--skip",
        _MISSPELT,
        "docs",
        *_PAGES,
    )
    run(session, python, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", "site")


@nox.session(venv_backend="none")
def links(session: nox.Session) -> None:
    """Open every link to other sites, on all pages; one that leads nowhere is an error."""
    check = (host(session), "-m", "sphinx", "-q", "-b", "linkcheck")
    run(session, *check, "docs", "site/links")
    settings = {
        "extensions": "myst_parser",
        "include_patterns": ",".join(_PAGES),
        "root_doc": "README",
        "suppress_warnings": "myst,toc",
        "linkcheck_ignore": r"https://github\.com/sglang-platform/.*",
    }
    options = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    run(session, *check, "-C", *options, ".", "site/links_elsewhere")


def built(session: nox.Session, *targets: str) -> Path:
    """All distributions, built with hatchling into `dist/`: wheels and sdists, or the targets given."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    session.install("-q", "-c", "constraints.txt", "hatchling")
    kinds = [word for target in targets for word in ("-t", target)]
    for package in PACKAGES:
        with session.chdir(package):
            session.run("hatchling", "build", *kinds, "-d", str(dist))
    return dist


def install_built(session: nox.Session, *options: str) -> None:
    """Build what is published, look at it, and install it by name in the session's environment; options are pip's."""
    dist, again = built(session), Path(session.create_tmp()).resolve() / "again"
    shutil.rmtree(again, ignore_errors=True)
    session.install("-q", "twine")
    files = sorted(map(str, dist.iterdir()))
    session.run("twine", "check", "--strict", *files)
    sdists = [one for one in files if one.endswith(".tar.gz")]
    # Six environments for the builds would hold the same hatchling; `host` builds its own in such.
    beside = ("--no-build-isolation", "--check-build-dependencies")
    session.run("pip", "wheel", "-q", "--no-deps", *beside, "--wheel-dir", str(again), *sdists)
    for wheel in dist.glob("*.whl"):
        names = [set(ZipFile(folder / wheel.name).namelist()) for folder in (dist, again)]
        if names[0] != names[1]:
            session.error(
                f"{wheel.name} differs where its sdist is built alone: {sorted(names[0] ^ names[1])}"
            )
    version = str(session.run("python", ".ci/version.py", silent=True)).strip()
    ours = [f"sglang-platform-{name}=={version}" for name in NAMES]
    session.install("-q", *options, "-c", "constraints.txt", "--find-links", str(dist), *ours)
    with session.chdir(session.create_tmp()):  # away from the sources
        session.run("python", "-c", _IMPORT_ALL)
        session.run("sglang-platform", "list")
    session.log(f"built: {json.dumps([Path(one).name for one in files])}")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build wheels and sdists, each sdist a second time away from the repository; check them with twine; install them
    by name into this fresh environment, import them."""
    install_built(session, "--no-compile")  # for one import, all of torch's modules need not be compiled


UNSEEN_PLATFORMS = "1386ccc65b5dce4bb57c8909e571344c0bf65b21"
"""The last commit with the platforms that the suite had not seen: a release has them in an archive."""


@nox.session
def release(session: nox.Session) -> None:
    """The rehearsal of a release: its archive of evidence, `wheels`, then SGLang beside them by `host requirements`, a
    generation, and README's commands, in an empty folder."""
    archive = ROOT / "build" / "evidence" / "unseen_platforms.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    words = ("-o", str(archive), UNSEEN_PLATFORMS, "conformance/tests/mutants/unseen")
    session.run("git", "archive", *words, external=True)
    install_built(session)
    work = Path(session.create_tmp()).resolve() / "newcomer"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    file = sglang_requirements(session, SGLANG, "sglang-platform")
    session.install("-q", "-c", "constraints.txt", "-r", str(file))
    session.install("-q", "--no-deps", f"sglang=={SGLANG}")
    site = Path(str(session.run("python", "-c", _PURELIB, silent=True)).strip())
    make_torchvision_importable(site)
    with session.chdir(work):
        session.run("python", "-m", "sglang_platform.conformance.host.generate")
        for command in readme_commands():
            # 3: nothing wrong, and not everything could be looked at.
            session.run(*command, success_codes=[0, 3])
            if command[1] == "new":
                os.chdir(command[2])


def readme_commands() -> list[list[str]]:
    """The commands of README that need no model and no server, in its order."""
    text = (ROOT / "README.md").read_text()
    written = re.findall(r"^(sglang-platform [^#\n]+)|`(sglang-platform [^`]+)`", text, re.M)
    lines = [(line or span).replace("PLUGIN", "sglang-platform-example-oot") for line, span in written]
    return [words for line in lines if len(words := shlex.split(line)) > 1 and "..." not in line]


@nox.session(name="vendor_copy", venv_backend="none")
def vendor_copy(session: nox.Session) -> None:
    """Walk the vendor guide in an empty folder: wheels, the copy, each command and edit of the page, with the minutes.

    The environment sees SGLang and torch of the host environment, and of ours only what the page installs.
    `-- --longest 1` leaves out commands of more minutes.
    """
    python = host(session)
    work = Path(session.create_tmp()).resolve()
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "projects"
    folder.mkdir(parents=True)
    fresh = _environment_beside_host(session, python, work / "environment")
    for program in ("pip", "pytest"):
        script = fresh.parent / program
        script.write_text(f'#!/bin/sh\nexec "{fresh}" -m {program} "$@"\n')
        script.chmod(0o755)
    site = next((work / "environment" / "lib").glob("python*/site-packages"))
    (site / "torch_acme.py").write_text(_TORCH_ACME)
    (site / "torch_acme-1.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: torch-acme\nVersion: 1.0\n"
    (site / "torch_acme-1.0.dist-info" / "METADATA").write_text(metadata)
    clean = {"PATH": f"{fresh.parent}{os.pathsep}{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    walk = (str(fresh), "tests/command/walk_page.py", "docs/vendor_guide.md", str(folder))
    session.run(*walk, *session.posargs, external=True, env=clean)


def _environment_beside_host(session: nox.Session, python: str, folder: Path) -> Path:
    """A venv in which all packages of the host environment are, by links, except ours; returns its Python."""
    session.run(python, "-m", "venv", "--without-pip", str(folder), external=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    for entry in next((HOST / "lib").glob("python*/site-packages")).iterdir():
        if "sglang_platform" not in entry.name and entry.name != "__pycache__":
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


_TORCH_ACME = """
from sglang_platform.example_oot import device_type

device_type.NAME = "acme_npu"
from sglang_platform.example_oot.device import open_device

open_device()
"""
"""A vendor's torch plugin: it registers the example's device under the type of the copy."""

_PURELIB = "import sysconfig; print(sysconfig.get_paths()['purelib'])"

_IMPORT_ALL = """
import importlib, pathlib, sysconfig
for name in ("core", "devtools", "cuda", "rocm", "example_oot", "conformance"):
    module = importlib.import_module(f"sglang_platform.{name}")
    assert sysconfig.get_paths()["purelib"] in module.__file__, module.__file__
    print(module.__name__, module.__file__)
"""
