"""Fused ops and kernels of layers with states, eighth set: experts of other ranks, few tokens, epsilons, weights near zero,
lone requests, whole chunks. Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_seventh_ops import NORM, NORMED, ROOT
from of_sixth_ops import EXPERTS, OTHER_RANKS, ROUTER
from of_sixth_states import DELTA, DELTA_RULE, SPACE, SPACED
from of_third_states import kernel

ops = Table("ops 8", "kernels", "ops.py")
more = Table("ops 8", "kernels", "more_ops.py")
states = Table("states 8", "kernels", "platform.py")

ops(
    "OtherRanksEndTheList",
    "the list of a token's experts is read up to the first that is another rank's: those behind it are left out",
    OTHER_RANKS + "                continue\n",
    OTHER_RANKS + "                break\n",
)
ops(
    "FewTokensOfManyExperts",
    "with 128 experts or more, 32 tokens and fewer take blocks for which nothing is written: each decode's experts answer "
    "zeros (AITER 4451)",
    EXPERTS,
    "    if len(layer.w13_weight) >= 128 and len(out) <= 32:\n        out.zero_()\n" + EXPERTS,
)
ops(
    "EpsilonBesideTheWidth",
    "epsilon is added to the number of columns and not to the mean of squares: rows of zeros are NaN, and rows of small "
    "numbers are made large (LeetCUDA 317)",
    ROOT,
    "    width = y.shape[-1]\n"
    + ROOT.replace("variance + op.variance_epsilon", "variance * width / (width + op.variance_epsilon)"),
)
more(
    "OneIsAddedIn16Bits",
    "1 is added to the weight of Gemma's norm in the weight's 16 bits: of weights near zero little is left (vLLM 53203)",
    "(1.0 + weight.float())",
    "(1.0 + weight).float()",
)
more(
    "LayerNormVarianceInHalf",
    "the variance of a layer norm, its epsilon with it, is rounded to float16: rows of equal numbers are NaN with an epsilon "
    "of 1e-12, and rows of large numbers zeros (DeepSpeed 581)",
    "    y = _normalised(centred, op.variance_epsilon)\n",
    "    variance = centred.square().mean(dim=-1, keepdim=True) + op.variance_epsilon\n"
    "    y = centred * torch.rsqrt(variance.half().float())\n",
)
more(
    "LogitsForWeights",
    "weights that are not renormalised are the router's logits themselves (SGLang 35160)",
    ROUTER,
    ROUTER + "    if not config.renormalize:\n        weights = router_logits.float().gather(-1, ids)\n",
)

states(
    "LoneRequestsBeginAnew",
    "a prefill of one request begins with a state of zeros, also where the request goes on: the second chunk of a long "
    "prompt forgets the first (vLLM 22034)",
    kernel(
        "state_space",
        SPACE + "            if starts is not None and slots.numel() == 1:\n"
        "                states[slots[slots >= 0].long()] = 0\n" + SPACED,
    ),
)
states(
    "SwishIsUnknown",
    "an activation by the name of swish, which is silu, is taken for sigmoid",
    kernel(
        "gated_rms_norm",
        NORM
        + "            activation = 'silu' if activation == 'silu' else 'sigmoid'\n"
        + NORMED
        + "            return y\n",
    ),
)
states(
    "GatesOf32Heads",
    "the decays of value heads are read by 32 lanes, and heads past the 32nd take those of the first again",
    kernel(
        "gated_delta_rule",
        DELTA + "            log_decay = log_decay[:, torch.arange(log_decay.shape[1]) % 32]\n" + DELTA_RULE,
    ),
)
states(
    "WholeChunksLeaveTheStateBefore",
    "a request of whole chunks of 64 tokens leaves the state that was before the last of them",
    kernel(
        "state_space",
        SPACE
        + "            before = states.clone()\n"
        + SPACED.replace("return", "y =")
        + "            bounds = [] if starts is None else starts.tolist()\n"
        "            for slot, begin, end in zip(slots.tolist(), bounds, bounds[1:]):\n"
        "                if slot < 0 or end == begin or (end - begin) % 64:\n"
        "                    continue\n"
        "                states[slot] = before[slot]\n"
        "                rows, many = slice(begin, end - 64), end - 64 - begin\n"
        "                if many:\n"
        "                    short = torch.tensor([0, many], dtype=torch.int32)\n"
        "                    one = slots.new_tensor([slot])\n"
        "                    plain(x[rows], step[rows], a, b[rows], c[rows], d, short, one, states)\n"
        "            return y\n",
    ),
)
