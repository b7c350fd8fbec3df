"""Drawn plugins of two modules, guard within guard: what the reader says, against what running them raises."""

from __future__ import annotations

import tempfile
from pathlib import Path

from guard_forms import GUARDS, NEW_USES, OLD_USES, UNGUARDED, plugin_source
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import differences

FORMS = {**GUARDS, **UNGUARDED}
NAMES = st.sampled_from(sorted(FORMS))
PLUGINS = st.tuples(NAMES, NAMES, st.sampled_from(sorted(NEW_USES)), st.sampled_from(sorted(OLD_USES)))


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    drawn=st.lists(PLUGINS, min_size=25, max_size=40, unique=True),
    release=st.sampled_from(["0.5.11", "0.5.23"]),
)
def test_guards_within_guards(
    hosts: dict[str, Path], drawn: list[tuple[str, str, str, str]], release: str
) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder, named = Path(made), {}
        for place, (outer, inner, new, old) in enumerate(drawn):
            stem = f"plugin_{place}"
            named[stem] = f"{outer} > {inner}: {new}, {old}"
            inside = plugin_source(FORMS[inner], NEW_USES[new], OLD_USES[old])
            (folder / f"part_{place}.py").write_text(inside)
            head = f"import part_{place} as part\n"
            (folder / f"{stem}.py").write_text(head + plugin_source(FORMS[outer], "part.register()", "pass"))
        assert differences(folder, hosts[release], named) == []
