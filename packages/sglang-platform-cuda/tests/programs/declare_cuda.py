"""The platforms made and the kernels declared: which heavy modules came with them?"""

import sys

import sglang_platform.cuda.kernels.declared
from sglang_platform.cuda.platform import CudaMMPlatform, CudaSRTPlatform

assert sglang_platform.cuda.kernels.declared.KERNELS
CudaSRTPlatform()
CudaMMPlatform()
print({"torch", "triton", "sglang"} & set(sys.modules))
