"""Faults of a plugin's files: compiled code that cannot be loaded, source that cannot be read."""

from __future__ import annotations

from fault_definition import Fault, dev_fault, platform

__all__ = ["FAULTS"]


def binary(name: str, title: str, ends: str, said: str, content: bytes, file: str = "dev_native.so") -> Fault:
    """A compiled module of the plugin."""
    return dev_fault(
        name,
        title,
        ends,
        said,
        distributions=(platform("dev", head="import dev_native"),),
        files={file: content},
    )


def mod(name: str, title: str, ends: str, said: str, files: dict[str, bytes]) -> Fault:
    """A module of the plugin, in place of a right one."""
    return dev_fault(name, title, ends, said, files=files)


FAULTS = [
    binary(
        "so-garbage",
        "the plugin's compiled module is garbage",
        "PluginFailed",
        "dev_native.so: file too short",
        b"no machine code",
    ),
    binary(
        "so-empty",
        "the plugin's compiled module is empty",
        "PluginFailed",
        "dev_native.so: file too short",
        b"",
    ),
    binary(
        "so-cut",
        "the plugin's compiled module is cut off",
        "PluginFailed",
        "dev_native.so: file too short",
        b"\x7fELF\x02\x01\x01" + b"\0" * 9,
    ),
    binary(
        "so-lfs",
        "the plugin's compiled module is a Git LFS pointer",
        "PluginFailed",
        "dev_native.so: file too short",
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n",
    ),
    binary(
        "so-arch",
        "the plugin's compiled module is for another processor",
        "PluginFailed",
        "dev_native.so: cannot open shared object file: No such file or directory",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xb7\0\x01\0\0\0" + b"\0" * 40,
    ),
    binary(
        "pyc-garbage",
        "the plugin ships a `.pyc` of another Python",
        "PluginFailed",
        "ImportError: bad magic number in 'dev_native': b'\\x00\\x01\\x02\\x03'",
        b"\x00\x01\x02\x03" + b"\0" * 12,
        "dev_native.pyc",
    ),
    binary(
        "pyc-cut",
        "the plugin ships a `.pyc` that is cut off",
        "PluginFailed",
        "ImportError: bad magic number in 'dev_native': b'\\xa7\\r'",
        b"\xa7\r",
        "dev_native.pyc",
    ),
    mod(
        "source-nul",
        "the plugin's module holds zero bytes",
        "PluginFailed",
        "SyntaxError: source code string cannot contain null bytes",
        {"dev_plugin.py": b"def activate():\n    return None\n\0"},
    ),
    dev_fault(
        "source-latin1",
        "the plugin's module holds a byte that is no UTF-8",
        "right",
        "the platform 'dev'",
        modules={"dev_decorator": "from framework import platform_plugin"},
        files={
            "dev_plugin.py": b"# f\xfcr\nfrom dev_decorator import platform_plugin\n"
            b"@platform_plugin\ndef activate():\n    return 'dev_cls:Platform'\n"
        },
    ),
    mod(
        "source-utf16",
        "the plugin's module is in UTF-16",
        "PluginFailed",
        "SyntaxError: source code string cannot contain null bytes",
        {"dev_plugin.py": "def activate(): return None\n".encode("utf-16")},
    ),
    mod(
        "source-tabs",
        "the plugin's module mixes tabs and blanks",
        "PluginFailed",
        "TabError: inconsistent use of tabs and spaces in indentation (dev_plugin.py, line 3)",
        {"dev_plugin.py": b"def activate():\n\tx = 1\n        return None\n"},
    ),
    mod(
        "source-conflict",
        "the plugin's module holds a merge conflict",
        "PluginFailed",
        "SyntaxError: invalid syntax (dev_plugin.py, line 1)",
        {"dev_plugin.py": b"<<<<<<< HEAD\ndef activate(): return None\n=======\n>>>>>>> other\n"},
    ),
    mod(
        "source-empty",
        "the plugin's module is empty",
        "PluginFailed",
        "AttributeError: module 'dev_plugin' has no attribute 'activate'",
        {"dev_plugin.py": b""},
    ),
    mod(
        "source-coding",
        "the plugin's module names an encoding that does not exist",
        "PluginFailed",
        "SyntaxError: unknown encoding: utf-99 (dev_plugin.py, line 0)",
        {"dev_plugin.py": b"# -*- coding: utf-99 -*-\n"},
    ),
    mod(
        "cls-syntax",
        "the platform's module has a syntax error",
        "PluginFailed",
        "SyntaxError: '(' was never closed (dev_cls.py, line 1)",
        {"dev_cls.py": b"class Platform(\n"},
    ),
    mod(
        "cls-empty",
        "the platform's module is empty",
        "PluginFailed",
        "AttributeError: module 'dev_cls' has no attribute 'Platform'",
        {"dev_cls.py": b""},
    ),
    mod(
        "cls-raises",
        "the platform's module raises while it is imported",
        "PluginFailed",
        "RuntimeError: no driver",
        {"dev_cls.py": b"raise RuntimeError('no driver')\n"},
    ),
    mod(
        "cls-exits",
        "the platform's module ends the process while it is imported",
        "PluginFailed",
        "SystemExit: 3",
        {"dev_cls.py": b"import sys; sys.exit(3)\n"},
    ),
    mod(
        "cls-replaces-itself",
        "the platform's module removes itself from `sys.modules`",
        "PluginFailed",
        "KeyError: 'dev_cls'",
        {"dev_cls.py": b"import sys\ndel sys.modules[__name__]\n"},
    ),
    mod(
        "module-is-folder",
        "the plugin's module is a folder without code",
        "PluginFailed",
        "AttributeError: module 'dev_plugin' has no attribute 'activate'",
        {"dev_plugin.py": b"", "dev_plugin/notes.txt": b""},
    ),
    mod(
        "circular",
        "the plugin's module and its class's import each other",
        "PluginFailed",
        "ImportError: cannot import name 'activate' from partially initialized module 'dev_plugin'",
        {
            "dev_plugin.py": b"import dev_cls\ndef activate(): return 'dev_cls:Platform'\n",
            "dev_cls.py": b"from dev_plugin import activate\n",
        },
    ),
]
