"""Checks a plugin's contract version, from its metadata alone."""

from __future__ import annotations

import re

from sglang_platform.core.discovery import scan
from sglang_platform.core.discovery.groups import CONTRACT_GROUP
from sglang_platform.core.discovery.scan import EntryPointRecord
from sglang_platform.core.errors import ContractVersionError

__all__ = ["check_contract_version", "stated_versions"]


def stated_versions(record: EntryPointRecord) -> list[str]:
    """The contract versions that its distribution states, e.g. `["v1"]`; none for plugins on SGLang's classes."""
    return [
        contract.value
        for contract in scan.records(CONTRACT_GROUP)
        if contract.name == record.name and contract.origin == record.origin
    ]


def check_contract_version(record: EntryPointRecord) -> None:
    """Raises ContractVersionError unless the plugin states this core's contract version, or none at all."""
    # Imported lazily: the contract takes longer to import than all of discovery, and listing plugins needs none.
    from sglang_platform.core.contract.version import CONTRACT_VERSION

    for stated in stated_versions(record):
        if stated == f"v{CONTRACT_VERSION}":
            continue
        number = re.fullmatch(r"v(\d+)", stated)
        distribution = record.origin.distribution
        if number is None:
            raise ContractVersionError(
                f"plugin {record.name!r} states the contract version {stated!r}, which is none",
                plugin=record.origin,
                why=f"a contract version is written `v<number>`; this core speaks v{CONTRACT_VERSION}",
                fix=f'correct [project.entry-points."{CONTRACT_GROUP}"] in {distribution} and install it again',
            )
        raise ContractVersionError(
            f"plugin {record.name!r} is built for contract version {number[1]}, this core speaks "
            f"version {CONTRACT_VERSION}",
            plugin=record.origin,
            why=f"its metadata states {record.name} = {stated} in {CONTRACT_GROUP}; nothing of it was imported",
            fix=(
                "install a matching version of sglang-platform-core"
                if int(number[1]) > CONTRACT_VERSION
                else f"install a matching version of {distribution}, or the sglang-platform-core it was built for"
            ),
        )
