"""Level 9: every feature of SGLang, from the records of `host.features`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable

from packaging.version import Version

from sglang_platform.conformance.check import CheckFailed, NotApplicable, check
from sglang_platform.conformance.host.engine import EngineFailed, RequestRefused
from sglang_platform.conformance.host.features.record import FeatureRecord, all_features
from sglang_platform.conformance.host.features.running import running
from sglang_platform.conformance.level import Level
from sglang_platform.conformance.requirement import engine
from sglang_platform.conformance.subject import Subject

__all__: list[str] = []


def _check(feature: FeatureRecord) -> Callable[[Subject], None]:
    def proof(subject: Subject) -> None:
        installed = importlib.metadata.version("sglang")
        if Version(installed) < Version(feature.since):
            raise NotApplicable(f"SGLang {installed} {feature.before}; {feature.since} and later serve it")
        run = running(subject, feature.launch)
        try:
            feature.function(run)
        except RequestRefused as refused:
            raise CheckFailed(str(refused)) from None
        except EngineFailed as failed:
            run.close()  # the next feature of this launch gets an engine that lives
            raise CheckFailed(f"it kills the engine: {failed}") from None
        theirs = run.hosts_own_parts()
        if theirs:
            raise CheckFailed(f"SGLang's own parts served it beside the platform's: {theirs}")

    proof.__name__, proof.__doc__ = feature.name, feature.function.__doc__
    return proof


for _feature in all_features():
    check(
        level=Level.FEATURES,
        requires=[engine()],
        hosts=("sglang",),
        seconds=_feature.seconds,
        fix=_feature.fix,
    )(_check(_feature))
