"""The tools that read sources: `check`, `hooks check`, `upgrade`, `host`, and the source checks of `doctor`."""
