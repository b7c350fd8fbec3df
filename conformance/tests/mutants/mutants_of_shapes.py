"""Level 4 mutants: what goes wrong at one shape, in one batch, or in the settings of the process."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

shape = partial(patch, __name__, file="attention.py")

_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_VALUE = "            value = _scaled(values[slots], layer.v_scale)\n"

shape(
    "SinksOfOneKeyHead",
    old="    if sinks is not None:\n",
    new="    if sinks is not None and not (kv_heads == 1 and heads > 4):\n",
    check="kernels.pairs_of_features",
    defect="with one key head for more than 4 query heads the sinks are left out",
    says="sinks",
)
shape(
    "WindowOfNarrowValues",
    old="    if window is not None and window >= 0:\n",
    new="    if window is not None and window >= 0 and v.shape[-1] == q.shape[-1]:\n",
    check="kernels.pairs_of_features",
    defect="where values are narrower than keys the window is left out",
    says="sliding window",
)
shape(
    "SharedPastWhatIsShared",
    old=_SLOTS,
    new=_SLOTS
    + "            if first == 0:\n                one, prefix = slots, length - new\n"
    + "            elif min(length - new, prefix) > 32 and torch.equal(slots[:32], one[:32]):\n"
    + "                both = min(length - new, prefix)\n"
    + "                slots = torch.cat((one[:both], slots[both:]))\n",
    check="kernels.shared_prefix_attention",
    defect="requests whose first 32 slots agree are taken to share all of the shorter one's prefix",
    says="request",
)
shape(
    "OneTableForOneLength",
    old="        first = 0\n",
    new="        first = 0\n        seen: dict[Any, Any] = {}\n"
    "        shared = self.req_to_token_pool.req_to_token[batch.req_pool_indices.long(), 0].tolist()\n"
    "        batch_rows = [\n            seen.setdefault((slot, n), row) if n > 1 else row\n"
    "            for slot, n, row in zip(shared, lengths, batch.req_pool_indices.tolist())\n        ]\n"
    "        batch = type('Rows', (), {'req_pool_indices': torch.tensor(batch_rows)})\n",
    check="kernels.shared_prefix_attention",
    defect="requests of one length that begin with the same slot read the slots of the first of them",
    says="request",
)
shape(
    "DrawsInEachStep",
    old=_VALUE,
    new=_VALUE + "            value = value + 0 * torch.rand(1)\n",
    check="kernels.attention_is_deterministic",
    defect="each step draws of torch's random numbers, so that sampled tokens depend on the layers",
    says="torch's random numbers",
)
shape(
    "DecodeWidensTheCache",
    old="        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id)\n",
    new="        keys = self.token_to_kv_pool.get_key_buffer(layer.layer_id).double().float()\n",
    check="kernels.decode_time_grows_with_the_context",
    defect="decode widens the layer's whole cache in each step",
    says="in a pool of",
)
shape(
    "SlotsKeptByRow",
    old=_SLOTS,
    new=_SLOTS
    + "            slots = self.__dict__.setdefault('_kept', {}).setdefault((row, length), slots.clone())\n",
    check="kernels.request_table_is_read_in_every_step",
    defect="the slots of a request are kept by its row and length, and another request has them later",
    says="wrong by",
)
shape(
    "SlotsKeptByTheFirst",
    old=_SLOTS,
    new=_SLOTS + "            known = (row, length, int(slots[0]))\n"
    "            slots = self.__dict__.setdefault('_kept', {}).setdefault(known, slots.clone())\n",
    check="kernels.request_table_is_read_in_every_step",
    defect="the slots of a request are kept by its row, length and first slot, which a shared prefix leaves as it is",
    says="wrong by",
)
shape(
    "KeysKeptByRow",
    old="            key = _scaled(keys[slots], layer.k_scale)\n",
    new="            key = _scaled(keys[slots], layer.k_scale)\n"
    "            if new == 1:\n"
    "                key = self.__dict__.setdefault('_kept', {}).setdefault((row, int(slots[0])), key)[:length]\n"
    "                key = key if len(key) == length else _scaled(keys[slots], layer.k_scale)\n",
    check="kernels.request_table_is_read_in_every_step",
    defect="keys that were gathered are kept by the row and its first slot, and read when others are stored there",
    says="wrong by",
)
