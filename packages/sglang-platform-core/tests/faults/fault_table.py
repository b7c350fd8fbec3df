"""All faults, in the order of the page."""

from __future__ import annotations

import faults_of_answers
import faults_of_choice
import faults_of_commands
import faults_of_contract
import faults_of_development
import faults_of_discovery
import faults_of_entry_point_files
import faults_of_forks
import faults_of_hook_targets
import faults_of_hooked_kinds
import faults_of_hooks
import faults_of_metadata
import faults_of_odd_objects
import faults_of_older_names
import faults_of_platforms
import faults_of_plugin_files
import faults_of_plugins
import faults_of_raised_errors
import faults_of_references
import faults_of_registries
import faults_of_reports
import faults_of_variables
from fault_definition import Fault

__all__ = ["AREAS", "FAULTS"]

AREAS: dict[str, list[Fault]] = {
    "Discovery": [
        *faults_of_discovery.FAULTS,
        *faults_of_choice.FAULTS,
        *faults_of_development.FAULTS,
        *faults_of_platforms.FAULTS,
        *faults_of_forks.FAULTS,
    ],
    "Files of a plugin": [
        *faults_of_entry_point_files.FAULTS,
        *faults_of_metadata.FAULTS,
        *faults_of_plugin_files.FAULTS,
    ],
    "What a plugin answers": [
        *faults_of_answers.FAULTS,
        *faults_of_raised_errors.FAULTS,
        *faults_of_variables.FAULTS,
    ],
    "General plugins": faults_of_plugins.FAULTS,
    "Hooks": [
        *faults_of_hook_targets.FAULTS,
        *faults_of_hooks.FAULTS,
        *faults_of_hooked_kinds.FAULTS,
        *faults_of_references.FAULTS,
        *faults_of_odd_objects.FAULTS,
    ],
    "The contract": [*faults_of_contract.FAULTS, *faults_of_older_names.FAULTS],
    "Registries": faults_of_registries.FAULTS,
    "Commands and reports": [*faults_of_commands.FAULTS, *faults_of_reports.FAULTS],
}

FAULTS = [fault for faults in AREAS.values() for fault in faults]
