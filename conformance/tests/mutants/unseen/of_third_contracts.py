"""Answers and what init_backend leaves behind, third set: what differs by call, and what stays set."""

from __future__ import annotations

from broken import Edit, Table, at

contract = Table("contract 3", "contract", "platform.py")

INIT = "        ops.register(NAME)\n"
BEFORE_INIT = "    def init_backend(self) -> None:\n"
KIND = '        module, _, name = FIXTURES[kv_pool_kind(kind)].reference.partition(":")\n'
COMPILE = '        return "eager"\n'
BEFORE_PROFILER = "    def get_torch_profiler_activity_str(self) -> str:\n"


def method(text: str) -> Edit:
    """The platform with one more method."""
    return at("platform.py", BEFORE_INIT, f"{text}\n{BEFORE_INIT}")


def of_device(text: str) -> Edit:
    """The device with one more method."""
    return at("device.py", BEFORE_PROFILER, f"{text}\n{BEFORE_PROFILER}")


def on_init(text: str) -> tuple[str, str]:
    return INIT, INIT + text


# What init_backend leaves behind

contract(
    "InitFlushesDenormals",
    "init_backend makes the processor flush denormal numbers to zero",
    *on_init("        import torch\n\n        torch.set_flush_denormal(True)\n"),
)
contract(
    "InitSocketsTimeOut",
    "init_backend gives every new socket of the process a time-out of a second",
    *on_init("        import socket\n\n        socket.setdefaulttimeout(1.0)\n"),
)
contract(
    "InitNumpyRaises",
    "init_backend makes numpy raise where it would warn",
    *on_init("        import numpy\n\n        numpy.seterr(all='raise')\n"),
)
contract(
    "InitMask",
    "init_backend sets the mask of new files, so that others cannot read the engine's",
    *on_init("        import os\n\n        os.umask(0o177)\n"),
)
contract(
    "InitFewFiles",
    "init_backend lowers the number of files that the process may open",
    *on_init(
        "        import resource\n\n"
        "        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
    ),
)
contract(
    "InitInAFolder",
    "init_backend goes to another working folder",
    *on_init("        import os\n        import tempfile\n\n        os.chdir(tempfile.gettempdir())\n"),
)
contract(
    "InitMatmulPrecision",
    "init_backend lowers the precision of float32 products",
    *on_init("        import torch\n\n        torch.set_float32_matmul_precision('medium')\n"),
)
contract(
    "InitDeterministic",
    "init_backend makes torch refuse operators that are not deterministic",
    *on_init("        import torch\n\n        torch.use_deterministic_algorithms(True)\n"),
)
contract(
    "InitExceptHook",
    "init_backend replaces the hook for errors of threads, and they are lost",
    *on_init("        import threading\n\n        threading.excepthook = lambda args: None\n"),
)
contract(
    "InitTwiceRaises",
    "init_backend raises when it is called a second time in a process",
    *on_init(
        "        if globals().get('_initialised'):\n"
        "            raise RuntimeError('the runtime was initialised')\n"
        "        globals()['_initialised'] = True\n"
    ),
)
contract(
    "InitSwitchesThreadsSeldom",
    "init_backend lets a thread run for a second before others get a turn",
    *on_init("        import sys\n\n        sys.setswitchinterval(1.0)\n"),
)
contract(
    "InitProxies",
    "init_backend tells every library of the process to go past the proxies",
    *on_init("        import os\n\n        os.environ['NO_PROXY'] = os.environ['no_proxy'] = '*'\n"),
)

# Answers

contract(
    "OlderNameOfDsa",
    "the older name of a kind of pool is a KeyError",
    KIND,
    '        module, _, name = FIXTURES[kind].reference.partition(":")\n',
)
contract(
    "PoolThroughAFunction",
    "the pool of latent rows is a function that builds one",
    KIND,
    '        if kind == "mla":\n            return lambda **keywords: None  # type: ignore[return-value]\n'
    + KIND,
)
contract(
    "CompileBackendOfTheMode",
    "the compile backend for a mode is the mode",
    COMPILE,
    '        return mode or "eager"\n',
)
contract(
    "BackendsOnce",
    "attention backends are answered at the first question only",
    "        return {NAME: ReferenceAttention}\n",
    "        if self.__dict__.get('_asked'):\n"
    "            return {}\n"
    "        self._asked = True\n"
    "        return {NAME: ReferenceAttention}\n",
)
contract(
    "NewClassForEachQuestion",
    "each question for the paged allocator is answered with a class of its own",
    "        return ReferencePagedAllocator\n",
    "        return type('ReferencePagedAllocator', (ReferencePagedAllocator,), {})\n",
)
contract(
    "QuantizationAnswersFalse",
    "a method of quantisation that it does not run is answered with False",
    of_device(
        "    def verify_quantization(self, quant: str) -> None:\n        return False  # type: ignore[return-value]\n"
    ),
)
contract(
    "QuantizationDeclaredAndRefused",
    "it declares a method of quantisation and refuses it",
    at(
        "platform.py",
        "    attention_features = tuple(",
        '    supported_quantization = ["w8a8_int8", "fp8"]\n    attention_features = tuple(',
    ),
    of_device(
        "    def verify_quantization(self, quant: str) -> None:\n"
        '        if quant not in ("w8a8_int8",):\n'
        '            raise ValueError(f"{quant} does not run here")\n'
    ),
)
contract(
    "BitmaskLosesTheLastWord",
    "where the vocabulary is no multiple of 32, tokens of the mask's last word stay allowed",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:\n"
        "            whole = logits.shape[1] // 32 * 32\n"
        "            apply_token_bitmask_(logits[:, :whole], bitmask[:, : whole // 32])\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "BitmaskOfThePaddedVocabulary",
    "logits that are a slice of a padded vocabulary are masked as if their rows lay side by side",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:\n"
        "            rows = logits.as_strided(logits.shape, (logits.shape[1], 1))\n"
        "            apply_token_bitmask_(rows, bitmask)\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
contract(
    "BitmaskPast128Rows",
    "rows past the 128th of a batch are not masked",
    method(
        "    def get_token_bitmask_fn(self) -> Any:\n"
        "        import torch\n\n"
        "        from sglang_platform.core.portable.torch.token_bitmask import apply_token_bitmask_\n\n"
        "        def apply(logits: torch.Tensor, bitmask: torch.Tensor) -> None:\n"
        "            apply_token_bitmask_(logits[:128], bitmask[:128])\n\n"
        "        return apply\n"
    ),
    levels="contract kernels",
)
