"""Faults of a distribution's folder: `METADATA`, left-overs of an upgrade, strangers beside it."""

from __future__ import annotations

from typing import Any

from fault_definition import Fault, dev_fault, platform

__all__ = ["FAULTS"]

META = "dev_dist-1.0.dist-info/METADATA"
GOOD = "[sglang.srt.platforms]\ndev = dev_plugin:activate\n\n[sglang_platform.contract]\ndev = v1\n"


def chosen_fault(name: str, title: str, ends: str, said: str, **rest: Any) -> Fault:
    return dev_fault(name, title, ends, said, **rest)


FAULTS = [
    chosen_fault(
        "meta-absent",
        "`METADATA` is empty",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={META: b""},
    ),
    chosen_fault(
        "meta-latin1",
        "`METADATA` holds a byte that is no UTF-8",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={META: b"Metadata-Version: 2.1\nName: dev-dist\nVersion: 1.0\nAuthor: M\xfcller\n"},
    ),
    chosen_fault(
        "meta-no-name",
        "`METADATA` names no distribution",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={META: b"Metadata-Version: 2.1\nVersion: 1.0\n"},
    ),
    chosen_fault(
        "meta-no-version",
        "`METADATA` states no version",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={META: b"Metadata-Version: 2.1\nName: dev-dist\n"},
    ),
    chosen_fault(
        "meta-garbage",
        "`METADATA` is full of random bytes",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={META: bytes(range(256))},
    ),
    chosen_fault(
        "meta-other-name",
        "`METADATA` has another name than its folder",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={META: b"Metadata-Version: 2.1\nName: other\nVersion: 1.0\n"},
    ),
    chosen_fault(
        "two-infos",
        "an upgrade left the folder of the older version behind",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"), platform("dev", version="2.0")),
    ),
    chosen_fault(
        "two-infos-named",
        "the same, and `SGLANG_PLATFORM` names the platform",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"), platform("dev", version="2.0")),
        environment={"SGLANG_PLATFORM": "dev"},
    ),
    chosen_fault(
        "info-is-file",
        "a file is called like a distribution's folder",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={"broken-1.0.dist-info": b"x"},
    ),
    chosen_fault(
        "egg-info",
        "an `.egg-info` beside the installed distribution",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={
            "dev_dist.egg-info/PKG-INFO": b"Metadata-Version: 2.1\nName: dev-dist\nVersion: 1.0\n",
            "dev_dist.egg-info/entry_points.txt": GOOD.encode(),
        },
    ),
    chosen_fault(
        "stranger-unreadable",
        "another distribution's `entry_points.txt` cannot be read",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={
            "odd-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n",
            "odd-1.0.dist-info/entry_points.txt": b"\xff\xfe\x00",
        },
    ),
    chosen_fault(
        "stranger-malformed",
        "another distribution's `entry_points.txt` has a malformed console script",
        "right",
        "the platform 'dev'",
        distributions=(platform("dev"),),
        files={
            "odd-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n",
            "odd-1.0.dist-info/entry_points.txt": b"[console_scripts]\nodd odd:main\n",
        },
    ),
]
