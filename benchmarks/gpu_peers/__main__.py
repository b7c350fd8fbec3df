"""`python benchmarks/gpu_peers FOLDER`: SGLang's Triton kernels from the installed SGLang, for `gpu_all.py --peers`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from gpu_peers import pack

if len(sys.argv) != 2:
    sys.exit(__doc__)
try:
    print(f"SGLang {pack(Path(sys.argv[1]))} in {sys.argv[1]}")
except ValueError as error:
    sys.exit(str(error))
