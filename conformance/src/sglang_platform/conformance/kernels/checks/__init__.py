"""One file per kernel family: `cases(entry, device, seed)` yields the cases that any kernel of the family must pass."""
