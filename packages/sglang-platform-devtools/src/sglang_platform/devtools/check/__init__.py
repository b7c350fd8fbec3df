"""All checks of a plugin that need no device, for a pull request: `sglang-platform check`.

remark       one thing found, with its line        packaging    metadata, entry points, requirements, files
unpacked     a wheel or folder as if installed     installation `doctor`'s findings on that, from a subprocess
couplings    the plugin's lines against one host   sarif        the remarks for code hosts
report       everything in order, as text and JSON page         the same as one HTML page
"""
