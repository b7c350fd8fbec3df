"""The scheduler, changed in place."""

import functools
import logging

from sglang.srt.managers import scheduler as host

logger = logging.getLogger(__name__)


def patch_scheduler():
    _wrap("get_next_batch_to_run")
    host.Scheduler.run_batch = _counted(host.Scheduler.run_batch)
    host.Scheduler.basalt_steps = 0
    setattr(host.Scheduler, "flush_cache", flush_cache)


def _wrap(name):
    original = getattr(host.Scheduler, name)

    @functools.wraps(original)
    def wrapper(self, *args, **kwargs):
        return original(self, *args, **kwargs)

    setattr(host.Scheduler, name, wrapper)


def _counted(original):
    @functools.wraps(original)
    def run_batch(self, batch, *args, **kwargs):
        self.basalt_steps += 1
        return original(self, batch, *args, **kwargs)

    return run_batch


_flush_cache = host.Scheduler.flush_cache


def flush_cache(self, *args, **kwargs):
    logger.debug("cache flushed")
    return _flush_cache(self, *args, **kwargs)
