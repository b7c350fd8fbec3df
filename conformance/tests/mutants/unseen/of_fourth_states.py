"""Kernels of layers with states, fourth set: states that are views, strong decays, lengths of whole chunks."""

from __future__ import annotations

from broken import Edit, Table
from of_third_states import kernel

states = Table("states 4", "kernels", "platform.py")


def own(name: str, body: str) -> Edit:
    return kernel(name, body)


states(
    "ConvolutionOfACopiedState",
    "a pool of states that is not contiguous is copied, and what the convolution leaves in the copy is lost",
    own(
        "short_convolution",
        "        def own(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
        "            return plain(x, weight, bias, starts, slots, resumes, states.contiguous(), silu=silu)\n",
    ),
)
states(
    "DeltaOfACopiedState",
    "a pool of states that is not contiguous is copied, and what the delta rule leaves in the copy is lost",
    own(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            return plain(q, k, v, log_decay, step, starts, slots, states.contiguous(), scale=scale)\n",
    ),
)
states(
    "DeltaDividesByTheDecay",
    "keys of a chunk are divided by the decay since its beginning: strong decays give infinities that meet zeros",
    own(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            y, before = plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
        "            if starts is not None:\n"
        "                bounds = starts.tolist()\n"
        "                for begin, end in zip(bounds, bounds[1:]):\n"
        "                    for at in range(begin, end, 64):\n"
        "                        total = log_decay[at : min(at + 64, end)].cumsum(0)\n"
        "                        gone = total < -88\n"
        "                        y[at : at + len(total)][gone] = float('nan')\n"
        "            return y, before\n",
    ),
)
states(
    "DeltaStateBehindWholeChunks",
    "a request of whole chunks has one state more handed out: that behind its last chunk",
    own(
        "gated_delta_rule",
        "        def own(q, k, v, log_decay, step, starts, slots, states, *, scale):\n"
        "            y, before = plain(q, k, v, log_decay, step, starts, slots, states, scale=scale)\n"
        "            if before is None:\n"
        "                return y, before\n"
        "            parts, first = [], 0\n"
        "            for n, slot in zip(starts.diff().tolist(), slots.tolist()):\n"
        "                chunks = -(-n // 64)\n"
        "                parts.append(before[first : first + chunks])\n"
        "                first += chunks\n"
        "                if n and n % 64 == 0 and slot >= 0:\n"
        "                    parts.append(states[slot : slot + 1].to(before.dtype))\n"
        "            return y, torch.cat(parts) if parts else before\n",
    ),
)
states(
    "SpaceLeavesTheRest",
    "tokens that belong to no request are not written: what lay in the memory comes out",
    own(
        "state_space",
        "        def own(x, step, a, b, c, d, starts, slots, states):\n"
        "            y = plain(x, step, a, b, c, d, starts, slots, states)\n"
        "            if starts is not None:\n"
        "                y[int(starts[-1]) :] = float('nan')\n"
        "            return y\n",
    ),
)
states(
    "GatedNormWeightOfTheFirstLayer",
    "the weight of the first gated norm of a width serves all layers of that width",
    own(
        "gated_rms_norm",
        "        kept: dict[Any, Any] = {}\n\n"
        "        def own(x, gate, weight, *, epsilon, activation, group_size, gate_first):\n"
        "            if weight is not None:\n"
        "                weight = kept.setdefault(tuple(weight.shape), weight.float().clone())\n"
        "            return plain(\n"
        "                x, gate, weight, epsilon=epsilon, activation=activation, group_size=group_size,\n"
        "                gate_first=gate_first,\n"
        "            )\n",
    ),
)
states(
    "ConvolutionAddsUpIn16Bits",
    "a convolution of bfloat16 is added up in bfloat16, tap after tap",
    own(
        "short_convolution",
        "        def own(x, weight, bias, starts, slots, resumes, states, *, silu):\n"
        "            if x.dtype != torch.bfloat16 or starts is not None:\n"
        "                return plain(x, weight, bias, starts, slots, resumes, states, silu=silu)\n"
        "            taps = weight.shape[1]\n"
        "            live = slots.long().clamp(min=0)\n"
        "            window = torch.cat((states[live][:, :, states.shape[2] - taps + 1 :].to(x.dtype), x[:, :, None]), 2)\n"
        "            plain(x, weight, bias, starts, slots, resumes, states, silu=silu)\n"
        "            y = torch.zeros_like(x)\n"
        "            for tap in range(taps):\n"
        "                y = y + window[:, :, tap] * weight[:, tap].to(x.dtype)\n"
        "            y = y if bias is None else y + bias.to(x.dtype)\n"
        "            y = torch.nn.functional.silu(y) if silu else y\n"
        "            return torch.where((slots < 0)[:, None], torch.zeros_like(y), y)\n",
    ),
)
states(
    "SpaceOfSlotsIn8Bits",
    "slots of requests are kept in 8 bits without a sign: request 256 has the state of slot 0",
    own(
        "state_space",
        "        def own(x, step, a, b, c, d, starts, slots, states):\n"
        "            slots = torch.where(slots < 0, slots, slots & 0xFF)\n"
        "            return plain(x, step, a, b, c, d, starts, slots, states)\n",
    ),
)
