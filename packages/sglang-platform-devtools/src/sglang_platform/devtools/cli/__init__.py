"""The subcommands that read sources, found by `sglang-platform` through the group `sglang_platform.cli`."""
