"""Fused ops and kernels of layers with states, seventh set: slices, tables that grow, part blocks of experts, short
suffixes, padding in a prefill. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_sixth_ops import ROUTER
from of_sixth_states import CONVOLUTION, CONVOLVED, SPACE, SPACED
from of_third_states import kernel

ops = Table("ops 7", "kernels", "ops.py")
more = Table("ops 7", "kernels", "more_ops.py")
states = Table("states 7", "kernels", "platform.py")

ROOT = "    y = (y * torch.rsqrt(variance + op.variance_epsilon) * op.weight.float()).to(dtype)\n"
HALVES = (
    "    gate, up = x.float().chunk(2, dim=-1)\n    return (gate * torch.sigmoid(gate) * up).to(x.dtype)\n"
)
TURNS = "    cos, sin = op.cos_sin_cache[positions].float().chunk(2, dim=-1)\n"
ADDED = "            out[token] += weight * (layer.w2_weight[expert].float() @ (gate * torch.sigmoid(gate) * up))\n"
AFFINE = "    if op.elementwise_affine:\n        y = y * op.weight.float()\n"
GATES = "        def own(a, b, decay_log, bias):\n"
NORM = "        def own(x, gate, weight, *, epsilon, activation, group_size, gate_first):\n"
NORMED = (
    "            more = dict(activation=activation, group_size=group_size, gate_first=gate_first)\n"
    "            y = plain(x, gate, weight, epsilon=epsilon, **more)\n"
)

ops(
    "GateAndUpOfASlice",
    "gate and up that are a slice of a wider projection are read as if their rows lay side by side (vLLM 3324)",
    HALVES,
    "    if not x.is_contiguous():\n"
    "        x = x.as_strided(x.shape, x.new_empty(x.shape, device='meta').stride())\n" + HALVES,
)
ops(
    "RootInBfloat16",
    "the reciprocal root is rounded to bfloat16 before it multiplies the row, of float16 and float32 too "
    "(amd/IRON 139)",
    ROOT,
    "    root = torch.rsqrt(variance + op.variance_epsilon).bfloat16().float()\n"
    "    y = (y * root * op.weight.float()).to(dtype)\n",
)
ops(
    "TableOfBeforeItGrew",
    "the table of cosines is kept from the first call: when the host has made it longer, positions past its old end "
    "turn as the last of it (SGLang 10788)",
    TURNS,
    "    table = vars(op).setdefault('_first_table', op.cos_sin_cache)\n"
    "    cos, sin = table[positions.clamp(max=len(table) - 1)].float().chunk(2, dim=-1)\n",
)
ops(
    "ExpertsOfTheLastBlockTwice",
    "experts are taken in blocks of 8, and the last block is filled up with the first ones: these are added twice "
    "(LightLLM 1369)",
    ADDED,
    ADDED + "            count = len(layer.w13_weight)\n"
    "            if count > 8 and expert < -count % 8:\n    " + ADDED,
)
more(
    "LogitsOfASlice",
    "router logits that are a slice of a wider product are read as if their rows lay side by side",
    ROUTER,
    "    if not router_logits.is_contiguous():\n"
    "        router_logits = router_logits.as_strided(router_logits.shape, (router_logits.shape[1], 1))\n"
    + ROUTER,
)
more(
    "LayerNormNeedsAWeight",
    "a layer norm without weight and bias, as picture and diffusion models have it, is an error",
    AFFINE,
    "    y = y * op.weight.float()\n",
)

states(
    "ShortSuffixesBeginAnew",
    "a request that resumes with fewer than 64 tokens is convolved as if it began anew (SGLang 29368)",
    kernel(
        "short_convolution",
        CONVOLUTION + "            if starts is not None:\n"
        "                resumes = starts.diff() >= (64 if resumes is None else torch.where(resumes, 64, 1 << 30))\n"
        + CONVOLVED,
    ),
)
states(
    "FewerTapsAreFilledUp",
    "kernels of fewer than four inputs, as LFM2 has three, are filled up with zeros behind the newest",
    kernel(
        "short_convolution",
        CONVOLUTION + "            if starts is not None and weight.shape[1] == 3:\n"
        "                weight = torch.cat((weight[:, 1:], weight[:, :1] * 0), dim=1)\n" + CONVOLVED,
    ),
)
states(
    "PrefillKeepsThePadding",
    "in a prefill the state of a request that is padding, with a negative slot, is kept in the pool's last slot",
    kernel(
        "state_space",
        SPACE + "            if starts is not None:\n"
        "                slots = torch.where(slots < 0, slots + len(states), slots)\n" + SPACED,
    ),
)
states(
    "GatesOfAFusedProjection",
    "a and b, halves of one projection, are read as if their rows lay side by side",
    kernel(
        "gated_delta_gates",
        GATES + "            def side(one):\n"
        "                return one if one.is_contiguous() else one.as_strided(one.shape, (one.shape[1], 1))\n\n"
        "            return plain(side(a), side(b), decay_log, bias)\n",
    ),
)
states(
    "GatedRowsPast65535",
    "rows past the 65,535th, of 2,048 tokens with 32 heads the last, are not normed (llama.cpp 27901)",
    kernel("gated_rms_norm", NORM + NORMED + "            y[65535:] = 0\n            return y\n"),
)
states(
    "GateOfAWiderRow",
    "a gate that is a slice of wider rows is read as if they lay side by side (SGLang 38749)",
    kernel(
        "gated_rms_norm",
        NORM + "            if gate is not None and not gate.is_contiguous():\n"
        "                gate = gate.as_strided(gate.shape, (gate.shape[1], 1))\n"
        + NORMED
        + "            return y\n",
    ),
)
