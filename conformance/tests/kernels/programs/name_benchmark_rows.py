"""Every row of the benchmark on GPUs is named once, and the quick rows are of the same names."""

import gpu_rows

rows = [row for group in gpu_rows.GROUPS for row in gpu_rows.rows(group, quick=False)]
names = [(row.name, *row.case.items()) for row in rows]
assert len(set(names)) == len(names), len(names)
assert len(names) >= 60, len(names)
assert all(row.bound in ("memory", "compute", "host") and row.needs >= 0 for row in rows)
quick = [row.name for group in gpu_rows.GROUPS for row in gpu_rows.rows(group, quick=True)]
assert sorted(quick) == sorted({row.name for row in rows})
