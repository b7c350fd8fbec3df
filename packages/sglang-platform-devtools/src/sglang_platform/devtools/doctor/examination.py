"""The checks that read the sources of the installed plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sglang_platform.core.doctor.finding import Finding
from sglang_platform.devtools.doctor.entry_functions import examine_entry_functions
from sglang_platform.devtools.doctor.host_answers import examined_live
from sglang_platform.devtools.doctor.platform_classes import examine_platform_classes
from sglang_platform.devtools.doctor.plugin_sources import examine_plugin_sources
from sglang_platform.devtools.source.environment import Environment
from sglang_platform.devtools.source.lookup import Lookup

__all__ = ["examine_sources"]

_log = logging.getLogger(__name__)


def examine_sources(*, start_host: bool) -> Iterator[Finding]:
    """The findings in entry functions, platform classes, and lines that depend on SGLang; needs the plugins' answers.

    Imports neither torch nor sglang, nor any platform class. start_host: an active platform on SGLang's own classes is
    examined in a running SGLang, in a subprocess.
    """
    _log.info("reading the platform classes of the plugins")
    lookup = Lookup(Environment())
    yield from examine_entry_functions(lookup)
    yield from examine_platform_classes(lookup, start_host=start_host)
    _log.info("reading the sources of the plugins")
    yield from examine_plugin_sources(examined_live(start_host))
