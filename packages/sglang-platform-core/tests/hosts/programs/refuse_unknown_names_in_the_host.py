"""SGLang's coming check of platform classes, put on the installed host: ours is served, a misspelt one is refused.

The check, at class creation: no public name that the host's `SRTPlatform` lacks, and no override that lost a parameter,
in any class down to it.
"""

import inspect
import os

import pytest

# The host's first import chooses a platform: its own here, so that the check is in place when ours is chosen.
chosen = os.environ.pop("SGLANG_PLATFORM")
import sglang.srt.platforms as host  # noqa: E402
from sglang.srt.platforms.interface import SRTPlatform  # noqa: E402

from sglang_platform.core import current_platform  # noqa: E402
from sglang_platform.core.discovery import current  # noqa: E402

known = {name for name in dir(SRTPlatform) if not name.startswith("_")}


def check(cls, **kwargs):
    super(SRTPlatform, cls).__init_subclass__(**kwargs)
    for klass in cls.__mro__[: cls.__mro__.index(SRTPlatform)]:
        unknown = {name for name in vars(klass) if not name.startswith("_")} - known
        if unknown:
            raise TypeError(f"{cls.__name__} has names that SRTPlatform does not know: {sorted(unknown)}")
        for name in {name for name in vars(klass) if inspect.isfunction(vars(klass)[name])} & known:
            theirs = inspect.signature(getattr(SRTPlatform, name)).parameters
            if not set(theirs) <= set(inspect.signature(vars(klass)[name]).parameters):
                raise TypeError(f"{cls.__name__}.{name} lost a parameter")


SRTPlatform.__init_subclass__ = classmethod(check)
with pytest.raises(TypeError, match="get_grph_runner_cls"):
    type("Misspelt", (SRTPlatform,), {"get_grph_runner_cls": lambda self: None})

current.reset()
os.environ["SGLANG_PLATFORM"], host._current_platform = chosen, None
assert host.current_platform is current_platform
assert isinstance(current_platform, SRTPlatform)
assert current_platform.device_name == "example_oot"
