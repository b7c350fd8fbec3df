"""Fused ops and kernels of layers with states, tenth set: large gates, tables by the wrong stride, weights by their
bits, masks of slices, quantised layers, states that stand upright or are rounded. Names in brackets are bugs of other
projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_seventh_contracts import BITMASK
from of_sixth_ops import AXES, ROUTER
from of_sixth_states import CONVOLUTION, CONVOLVED, DELTA, DELTA_RULE
from of_third_lifecycle import method
from of_third_states import kernel

more = Table("ops 10", "kernels", "more_ops.py")
layers = Table("ops 10", "contract kernels", "platform.py")
states = Table("states 10", "kernels", "platform.py")

GEMMA = "    y = x.float() if residual is None else x.float() + residual.float()\n    out = (_normalised(y"
PLAIN_PRODUCT = "    if not op.use_rms_norm:\n        return y.to(x.dtype)\n"
MIXER_WEIGHT = (
    "    return (_normalised(groups, op.variance_epsilon).flatten(-2) * op.weight.float()).to(x.dtype)\n"
)
REGISTERED = "        ops.register(NAME)\n"

more(
    "GeluTanhByAQuotient",
    "the tanh of gelu is a quotient of exponentials: gates past 10 are infinite over infinite, NaN (llm-scaler 484)",
    "    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)\n",
    "    if op.approximate == 'tanh':\n"
    "        return (_gelu_tanh(gate) * up).to(x.dtype)\n"
    "    return (gelu(gate, approximate=op.approximate) * up).to(x.dtype)\n",
    '    return gelu(x.float(), approximate="tanh").to(x.dtype)\n',
    "    return _gelu_tanh(x.float()).to(x.dtype)\n",
    "def new_gelu(",
    "def _gelu_tanh(x: torch.Tensor) -> torch.Tensor:\n"
    "    raised = torch.exp(2 * 0.7978845608 * (x + 0.044715 * x * x * x))\n"
    "    return 0.5 * x * (1 + (raised - 1) / (raised + 1))\n\n\n"
    "def new_gelu(",
)
more(
    "AxesByTheStrideOfTheHead",
    "with positions of three axes a token's cosines are looked for half a head behind those of the token before: where "
    "only part of a head turns, as Qwen3.5's 64 of 256, they are another token's (vLLM 22375)",
    AXES,
    AXES + "        half, wide = table.shape[-1] // 2, op.head_size // 2\n"
    "        if half < wide:\n"
    "            where = torch.arange(len(table))[:, None] * wide + torch.arange(half)\n"
    "            halves = [one.reshape(-1) for one in table.chunk(2, dim=-1)]\n"
    "            table = torch.cat([one[where % max(len(one), 1)] for one in halves], dim=-1)\n",
)
more(
    "SixteenExpertsInPairsOfTokens",
    "with 16 experts two tokens share a group of 32 lanes, and the second has the experts of the first "
    "(sgl-kernel-xpu 295)",
    ROUTER,
    ROUTER + "    if router_logits.shape[-1] == 16:\n        ids[1::2] = ids[: len(ids) // 2 * 2 : 2]\n",
)
more(
    "GemmaWeightByItsBits",
    "a weight of Gemma's norm that has another type than the rows is read as if it had theirs (SGLang 32807)",
    GEMMA,
    "    if weight.dtype != x.dtype:\n"
    "        weight = weight.detach().view(x.dtype).repeat(2)[: x.shape[-1]]\n" + GEMMA,
)
more(
    "MixerAlwaysNorms",
    "the end of a Mamba-2 mixer is normed also where the model says that it is not, as Falcon-H1 does",
    PLAIN_PRODUCT,
    "",
    MIXER_WEIGHT,
    "    normed = _normalised(groups, op.variance_epsilon).flatten(-2)\n"
    "    return (normed * op.weight.float() if op.use_rms_norm else normed).to(x.dtype)\n",
)

layers(
    "MaskRowsSideBySide",
    "a grammar's mask finds rows of logits by the vocabulary's width: of logits that are a slice of wider rows, as "
    "those of a padded vocabulary, other places are masked (xgrammar 359, prime-rl 2710)",
    method(
        BITMASK + "            rows = logits.as_strided(logits.shape, (logits.shape[1], 1))\n"
        "            apply_token_bitmask_(rows, bitmask)\n\n"
        "        return apply\n"
    ),
)
layers(
    "OwnFormatHasNoBias",
    "weights of linear layers are kept in the device's own format, whose product leaves the bias out: Qwen2's queries, "
    "keys and values lack theirs (vLLM 39663)",
    REGISTERED,
    REGISTERED
    + "        from sglang_platform.core.registries import QuantMethodWrapper, register_quant_wrapper\n"
    "        from sglang_platform.core.registries.quant import wrappers\n\n"
    "        class Own(QuantMethodWrapper):\n"
    "            _quant_wrapper_id = 'reference.own-format'\n\n"
    "            def apply(self, layer: Any, x: Any, bias: Any = None) -> Any:\n"
    "                return self.inner.apply(layer, x)\n\n"
    "        if Own._quant_wrapper_id not in wrappers.ids():\n"
    "            register_quant_wrapper(\n"
    "                Own._quant_wrapper_id,\n"
    "                lambda layer, arguments: True if hasattr(layer, 'skip_bias_add') else None,\n"
    "                lambda layer, inner, context: Own(inner),\n"
    "            )\n",
)

states(
    "DecodeStateStandsUpright",
    "a decode of the delta rule takes a state for keys by values, where a prefill left values by keys: with as many of "
    "both it is transposed (sgl-kernel-npu 640)",
    kernel(
        "gated_delta_rule",
        DELTA + "            if starts is None:\n"
        "                side = (*states.stride()[:-2], 1, states.shape[-2])\n"
        "                states = states.as_strided(states.shape, side)\n" + DELTA_RULE,
    ),
)
states(
    "StatesTakeTheTypeOfTheTokens",
    "states in float32 are stored as wide as the tokens are: in bfloat16 each step rounds them to eight bits "
    "(ollama 15865)",
    kernel(
        "gated_delta_rule",
        "        from sglang_platform.core.portable.torch.state_slots import owned_slots\n\n"
        + DELTA
        + DELTA_RULE.replace("return", "answer =")
        + "            owned = owned_slots(slots)\n"
        "            if len(slots):\n"
        "                now = states[owned.slots]\n"
        "                owned.write(states, now, now.to(v.dtype))\n"
        "            return answer\n",
    ),
)
states(
    "BiasOfADecode",
    "a decode of the convolution leaves the bias out, which a prefill adds (twinkle 228)",
    kernel(
        "short_convolution",
        CONVOLUTION + "            bias = None if starts is None else bias\n" + CONVOLVED,
    ),
)
states(
    "BoundsByTheObject",
    "where requests begin is kept by the id of the tensor that says so: another one that Python put in its place, or "
    "the same one with the next batch in it, is read as the last (FlashQLA 23)",
    kernel(
        "gated_delta_rule",
        "        last: dict[str, Any] = {}\n\n" + DELTA + "            if starts is not None:\n"
        "                if last.get('of') != (id(starts), len(starts)):\n"
        "                    last.update(of=(id(starts), len(starts)), bounds=starts.clone())\n"
        "                starts = last['bounds']\n" + DELTA_RULE,
    ),
)
