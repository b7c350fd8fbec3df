"""The checks, one file per subject. All modules here are imported when checks are listed: `check.registered`."""
