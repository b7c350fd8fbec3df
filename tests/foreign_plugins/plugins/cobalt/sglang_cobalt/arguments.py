"""Arguments that Cobalt cannot serve are corrected when a server is asked for."""

from .registry import HookRegistry, HookType

_ARGUMENTS = "sglang.srt.server_args.ServerArgs"


def before_resolution(self):
    if self.page_size not in (None, 16, 32):
        self.page_size = 32


def register():
    HookRegistry.register(f"{_ARGUMENTS}.resolve_once", before_resolution, HookType.BEFORE)
