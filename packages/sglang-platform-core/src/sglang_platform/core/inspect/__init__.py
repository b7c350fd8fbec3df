"""What can be told without running anything: of an installation (doctor), of hooks against a host (hook_check)."""
