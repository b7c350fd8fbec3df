"""Whoever asks what a plugin's source defines gets one answer, and importing the module says that it is right."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from awkward_forms import FORMS, Form

from sglang_platform.core.doctor.entry_points import target_problem
from sglang_platform.core.errors import PluginOrigin
from sglang_platform.core.hooks import existence
from sglang_platform.core.installed.address import Address
from sglang_platform.devtools.doctor.platform_classes import platform_class_nowhere
from sglang_platform.devtools.doctor.platform_location import PlatformLocation
from sglang_platform.devtools.hook_check.check import check
from sglang_platform.devtools.registrations import WantedHook
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup
from sglang_platform.devtools.source.opening import open_host

ORIGIN = PluginOrigin("vendor", "vendor-dist", "1.0")
VERDICTS = {"missing": "missing", "moved": "missing", "unknown": "unsure"}

every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@every_form
def test_importing_the_module_says_what_the_table_says(write, form: Form) -> None:
    package = write(form.source, form.others)
    try:
        found = importlib.import_module(f"{package}.mod")
        for name in form.path.split("."):
            found = getattr(found, name)
    except (AttributeError, ImportError):
        assert (form.imported or form.truth) == "missing"
    else:
        assert (form.imported or form.truth) == "exists"


@every_form
def test_hooks_check_finds_a_target_and_the_hooks_engine_denies_nothing(
    write, form: Form, tmp_path: Path
) -> None:
    package = write(form.source, form.others)
    address = Address(f"{package}.mod", tuple(form.path.split(".")))
    lacked = existence.missing(address)
    existence.forget()
    if lacked is not None:  # one flat look may know less than the others, and is never wrong
        assert form.truth == "missing", lacked
    hook = WantedHook(str(address), where="vendor/hooks.py:1")
    for host in (str(tmp_path), "installed"):
        (row,) = check([hook], open_host(host, {package}))
        assert VERDICTS.get(row.verdict, "exists") == form.truth, row


@every_form
def test_doctor_finds_a_platform_class_and_discovery_denies_no_entry_point(write, form: Form) -> None:
    place = f"{write(form.source, form.others)}.mod:{form.path}"
    is_missing = form.truth == "missing"
    if target_problem(place) is not None:  # from the same flat look
        assert is_missing
    nowhere = platform_class_nowhere(Lookup(Environment()), PlatformLocation(ORIGIN, place))
    assert (nowhere is not None) == is_missing
