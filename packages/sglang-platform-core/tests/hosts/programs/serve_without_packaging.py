"""A class that `SGLANG_PLATFORM_PLUGIN` names is SGLang's platform, though no distribution brings it."""

import sglang.srt.platforms as host
from sglang.srt.plugins import load_plugins

load_plugins()

from sglang_platform.core import HookRegistry, current_platform  # noqa: E402

assert host.current_platform.device_name == "acme", host.current_platform
assert host.current_platform.is_out_of_tree()
assert isinstance(host.current_platform, host.SRTPlatform)
assert current_platform is host.current_platform
assert current_platform.own_answer() == "acme's"
assert any(row["state"] == "applied" for row in HookRegistry.report()), "core's own hooks"
