"""Faults of `entry_points.txt`: a platform stands in it, and a reader may pass over it."""

from __future__ import annotations

from typing import Any

from fault_definition import Fault, dev_fault

__all__ = ["FAULTS"]

FILE = "dev_dist-1.0.dist-info/entry_points.txt"
GOOD = "[sglang.srt.platforms]\ndev = dev_plugin:activate\n\n[sglang_platform.contract]\ndev = v1\n"


def ep(name: str, title: str, ends: str, said: str, content: str | bytes, **rest: Any) -> Fault:
    """The file's whole content; `GOOD` would be right."""
    content = content.encode() if isinstance(content, str) else content
    return dev_fault(name, title, ends, said, files={FILE: content}, **rest)


FAULTS = [
    ep(
        "ep-no-equals",
        "a line of `entry_points.txt` has no `=`",
        "ConfigurationError",
        "the line 'dev dev_plugin:activate' in [sglang.srt.platforms] is not `name = value`",
        GOOD.replace("dev = dev_plugin", "dev dev_plugin"),
    ),
    ep(
        "ep-no-group",
        "`entry_points.txt` begins with a line before any group",
        "right",
        "the platform 'dev'",
        "dev = dev_plugin:activate\n" + GOOD,
    ),
    ep(
        "ep-utf16",
        "`entry_points.txt` is in UTF-16",
        "ConfigurationError",
        "it is not UTF-8, but has zero bytes, as UTF-16 has",
        GOOD.encode("utf-16"),
    ),
    ep(
        "ep-latin1",
        "`entry_points.txt` holds a byte that is no UTF-8",
        "ConfigurationError",
        "'utf-8' codec can't decode byte 0xfc in position 89: invalid start byte",
        GOOD.encode() + b"# f\xfcr\n",
    ),
    ep(
        "ep-bom",
        "`entry_points.txt` begins with a byte-order mark",
        "ConfigurationError",
        "it begins with a byte-order mark, which hides its first group",
        b"\xef\xbb\xbf" + GOOD.encode(),
    ),
    ep(
        "ep-blanks-in-group",
        "the group's brackets hold blanks",
        "ConfigurationError",
        "the group is written [ sglang.srt.platforms ], which nobody reads; it must be [sglang.srt.platforms]",
        GOOD.replace("[sglang.srt.platforms]", "[ sglang.srt.platforms ]"),
    ),
    ep(
        "ep-group-case",
        "the group is written in other case",
        "ConfigurationError",
        "the group is written [SGLang.SRT.Platforms], which nobody reads; it must be [sglang.srt.platforms]",
        GOOD.replace("[sglang.srt.platforms]", "[SGLang.SRT.Platforms]"),
    ),
    ep(
        "ep-colon",
        "an entry point is written with a colon, `dev: module:function`",
        "ConfigurationError",
        "the line 'dev: dev_plugin:activate' in [sglang.srt.platforms] is not `name = value`",
        GOOD.replace("dev = dev_plugin", "dev: dev_plugin"),
    ),
    ep(
        "ep-continuation",
        "an entry point goes on in a second line",
        "ConfigurationError",
        "the line 'dev_plugin:activate' in [sglang.srt.platforms] is not `name = value`",
        GOOD.replace("dev = dev_plugin:activate", "dev =\n    dev_plugin:activate"),
    ),
    ep(
        "ep-unclosed-group",
        "the group's bracket is not closed",
        "ConfigurationError",
        "the line '[sglang.srt.platforms' stands before any [group]",
        GOOD.replace("[sglang.srt.platforms]", "[sglang.srt.platforms"),
    ),
    ep(
        "ep-nul",
        "`entry_points.txt` is full of zero bytes",
        "ConfigurationError",
        "it is not UTF-8, but has zero bytes, as UTF-16 has",
        b"\0" * 64,
    ),
    ep(
        "ep-empty-reference",
        "an entry point names nothing",
        "PluginFailed",
        "correct the entry point dev =  of dev-dist",
        GOOD.replace("dev_plugin:activate", ""),
    ),
    ep(
        "ep-twice",
        "one `entry_points.txt` has a name twice",
        "DuplicatePlugins",
        "dev (dev-dist 1.0) = dev_plugin:activate; dev (dev-dist 1.0) = dev_plugin:other",
        GOOD.replace("dev = dev_plugin:activate", "dev = dev_plugin:activate\ndev = dev_plugin:other"),
    ),
    ep(
        "ep-group-twice",
        "one `entry_points.txt` has the group twice, with the same line",
        "right",
        "the platform 'dev'",
        GOOD + "[sglang.srt.platforms]\ndev = dev_plugin:activate\n",
    ),
    ep(
        "ep-inline-comment",
        "a comment follows an entry point on its line",
        "PluginFailed",
        "correct the entry point dev = dev_plugin:activate # ours of dev-dist",
        GOOD.replace("dev_plugin:activate", "dev_plugin:activate # ours"),
    ),
    ep(
        "ep-quotes",
        "the entry point is in quotes, as in `pyproject.toml`",
        "PluginFailed",
        'correct the entry point dev = "dev_plugin:activate" of dev-dist',
        GOOD.replace("dev_plugin:activate", '"dev_plugin:activate"'),
    ),
    ep(
        "ep-crlf",
        "`entry_points.txt` has line ends of Windows",
        "right",
        "the platform 'dev'",
        GOOD.replace("\n", "\r\n"),
    ),
    ep(
        "ep-cr",
        "`entry_points.txt` has line ends of old Macs",
        "right",
        "the platform 'dev'",
        GOOD.replace("\n", "\r"),
    ),
    ep(
        "ep-json",
        "`entry_points.txt` holds JSON",
        "ConfigurationError",
        'the line \'{"sglang.srt.platforms": {"dev": "dev_plugin:activate"}}\' stands before any [group]',
        '{"sglang.srt.platforms": {"dev": "dev_plugin:activate"}}',
    ),
    ep(
        "ep-parentheses",
        "the entry point calls the function, `module:activate()`",
        "PluginFailed",
        "correct the entry point dev = dev_plugin:activate() of dev-dist",
        GOOD.replace("dev_plugin:activate", "dev_plugin:activate()"),
    ),
    ep(
        "ep-file-path",
        "the entry point is a path, `dev_plugin.py:activate`",
        "PluginFailed",
        "No module named 'dev_plugin.py'",
        GOOD.replace("dev_plugin:activate", "dev_plugin.py:activate"),
    ),
    ep(
        "ep-dots",
        "the entry point is `dev_plugin.activate`, without a colon",
        "PluginFailed",
        "No module named 'dev_plugin.activate'",
        GOOD.replace("dev_plugin:activate", "dev_plugin.activate"),
    ),
    ep(
        "ep-relative",
        "the entry point is relative, `.dev_plugin:activate`",
        "PluginFailed",
        "TypeError: the 'package' argument is required to perform a relative import for '.dev_plugin'",
        GOOD.replace("dev_plugin:activate", ".dev_plugin:activate"),
    ),
    ep(
        "ep-dashes",
        "the entry point names the distribution, `dev-plugin:activate`",
        "PluginFailed",
        "correct the entry point dev = dev-plugin:activate of dev-dist",
        GOOD.replace("dev_plugin:activate", "dev-plugin:activate"),
    ),
    ep(
        "ep-extra-group",
        "the extra of an entry point",
        "right",
        "the platform 'dev'",
        GOOD.replace("dev_plugin:activate", "dev_plugin:activate [gpu]"),
    ),
    ep(
        "ep-empty",
        "`entry_points.txt` is empty and `SGLANG_PLATFORM` names its platform",
        "PluginNotFound",
        "no installed distribution has an entry point in sglang.srt.platforms",
        "",
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    ep(
        "ep-deep-attribute",
        "the entry point names an attribute of an attribute that is none",
        "PluginFailed",
        "AttributeError: 'function' object has no attribute 'now'",
        GOOD.replace("dev_plugin:activate", "dev_plugin:activate.now"),
    ),
]
