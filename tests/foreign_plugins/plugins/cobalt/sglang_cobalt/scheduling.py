"""The scheduler: hooks by decorator, when this module is imported."""

from .registry import HookType, plugin_hook

SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
BATCH = "sglang.srt.managers.schedule_batch.ScheduleBatch"


@plugin_hook(f"{SCHEDULER}.run_batch", type=HookType.AROUND)
def run_batch(original, self, batch, pp_proxy_tensors=None):
    return original(self, batch, pp_proxy_tensors)


@plugin_hook(SCHEDULER + ".get_next_batch_to_run", type=HookType.BEFORE)
def before_next_batch(self, *args, **kwargs):
    return None


@plugin_hook(f"{BATCH}.retract_decode")
def after_retract(result, self):
    retracted, ratio, to_abort = result
    return retracted, max(ratio, 0.1), to_abort


def register():
    """The decorators have done it."""
