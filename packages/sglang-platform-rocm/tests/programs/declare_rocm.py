"""The platforms made and the kernels declared: which heavy modules came with them?"""

import sys

import sglang_platform.rocm.kernels.declared
from sglang_platform.rocm.platform import RocmMMPlatform, RocmSRTPlatform

assert sglang_platform.rocm.kernels.declared.KERNELS
RocmSRTPlatform()
RocmMMPlatform()
print({"torch", "triton", "sglang"} & set(sys.modules))
