"""All that reads sources: `check`, `hooks check`, `upgrade`, `host`, and the source half of `doctor`."""
