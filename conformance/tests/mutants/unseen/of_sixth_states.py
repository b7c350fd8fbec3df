"""Kernels of layers with states, sixth set: requests of one token, keys of zero, slices, what a decode asks of the host.
Names in brackets are bugs of other projects that a defect is modelled on."""

from __future__ import annotations

from broken import Table
from of_third_states import kernel

states = Table("states 6", "kernels", "platform.py")

CONVOLUTION = "        def own(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
CONVOLVED = "            return plain(x, weight, bias, starts, slots, resumes, states, silu=silu)\n"
DELTA = "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
DELTA_RULE = "            return plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
SPACE = "        def own(x, step, a, b, c, d, starts, slots, states):\n"
SPACED = "            return plain(x, step, a, b, c, d, starts, slots, states)\n"

states(
    "OneTokenLeavesNoState",
    "a request that brings one token in a prefill has its output, and its state stays as it was",
    kernel(
        "state_space",
        SPACE
        + "            if starts is None:\n    "
        + SPACED
        + "            one = slots[(starts.diff() == 1) & (slots >= 0)].long()\n"
        "            before = states[one].clone()\n"
        "            y = plain(x, step, a, b, c, d, starts, slots, states)\n"
        "            states[one] = before\n"
        "            return y\n",
    ),
)
states(
    "SlicesOfTheConvolution",
    "b and c, slices of what the convolution answered, are read as if their rows lay side by side",
    kernel(
        "state_space",
        SPACE + "            side = (b.shape[1] * b.shape[2], b.shape[2], 1)\n"
        "            b, c = (one if one.is_contiguous() else one.as_strided(one.shape, side) for one in (b, c))\n"
        + SPACED,
    ),
)
states(
    "KeysOfZeroAreDivided",
    "a key of zeros is divided by its length, and the state is NaN from then on",
    kernel(
        "gated_delta_rule",
        DELTA
        + "            k = torch.where(k.abs().amax(-1, keepdim=True) == 0, float('nan'), k)\n"
        + DELTA_RULE,
    ),
)
states(
    "InputsStandUpright",
    "inputs that come as a transposed view are read as if they lay side by side",
    kernel(
        "short_convolution",
        CONVOLUTION + "            if not x.is_contiguous():\n"
        "                x = x.as_strided(x.shape, (x.shape[1], 1))\n" + CONVOLVED,
    ),
)
states(
    "NoWordIsNo",
    "a prefill that does not say who resumes begins all requests anew",
    kernel(
        "short_convolution",
        CONVOLUTION + "            if starts is not None and resumes is None:\n"
        "                resumes = torch.zeros(len(slots), dtype=torch.bool)\n" + CONVOLVED,
    ),
)
states(
    "DecodeLooksForPadding",
    "a decode asks which of its rows are padded, and so cannot be captured (torch 78549)",
    kernel(
        "short_convolution",
        CONVOLUTION
        + "            if starts is not None:\n    "
        + CONVOLVED
        + "            rows = (slots >= 0).nonzero().flatten()\n"
        "            y = torch.zeros_like(x)\n"
        "            y[rows] = plain(x[rows], weight, bias, None, slots[rows], None, states, silu=silu)\n"
        "            return y\n",
    ),
)
