"""SGLang's registry under one roof, so that the rest of the plugin imports it from here."""

try:
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType, plugin_hook
except ImportError:  # SGLang before 0.5.11 has none
    HookRegistry = HookType = None

    def plugin_hook(target, type=None):
        return lambda function: function


__all__ = ["HookRegistry", "HookType", "plugin_hook"]
