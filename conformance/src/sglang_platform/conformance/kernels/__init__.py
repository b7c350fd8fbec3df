"""Checks of a platform's declared Triton kernels on a machine without the device.

- `interpreter/`: runs kernels on the CPU, with the interpreter's number formats repaired and every access watched.
- `checks/`: one file per kernel family: random inputs, a float64 oracle, error bounds.
- `compile/`: a driver without a device, under which the real launch wrappers run and compile for each target, and
  what can be read from the machine code.
- `served/`: the launches of each family that are compiled so: the shapes of served models.

`python -m sglang_platform.conformance.kernels --platform NAME` runs them all. The interpreter and the compiler never
share a process: `TRITON_INTERPRET` is read once, when a kernel is decorated.
"""
