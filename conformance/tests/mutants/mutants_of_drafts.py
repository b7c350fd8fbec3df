"""Level 4 mutants: drafts that are verified, beams of a draft model, requests that go on in other slots, batches of
many long contexts, and calls of ops that are alike at their ends."""

from __future__ import annotations

from functools import partial

from patched_reference import patch, patched

__getattr__ = patched

attention = partial(patch, __name__, file="attention.py")
op = partial(patch, __name__, file="more_ops.py")

_DECODE = "    def forward_decode(\n"
_VERIFY = (
    "    def forward_verify(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        from sglang_platform.core.graph.runner import Drafts\n\n"
    "        told = forward_batch.spec_info\n"
)
_AS_TOLD = (
    "        try:\n"
    "            return super().forward_verify(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        finally:\n"
    "            forward_batch.spec_info = told\n\n"
)
_SLOTS = "            slots = self.req_to_token_pool.req_to_token[row, :length].long()\n"
_KEY = "            key = _scaled(keys[slots], layer.k_scale)\n"

attention(
    "MaskTurnedOver",
    old=_DECODE,
    new=_VERIFY + "        n = told.draft_token_num\n"
    "        if told.custom_mask is not None and told.custom_mask.numel() == forward_batch.batch_size * n * n:\n"
    "            mask = told.custom_mask.view(-1, n, n).transpose(1, 2).flatten()\n"
    "            forward_batch.spec_info = Drafts(n, topk=4, custom_mask=mask)\n" + _AS_TOLD + _DECODE,
    check="kernels.drafts_are_verified",
    defect="rows and columns of the mask are taken for each other: a draft sees those that follow it",
    says="wrong by",
)
attention(
    "TreeOfTheFirstRequest",
    old=_DECODE,
    new=_VERIFY + "        n, requests = told.draft_token_num, forward_batch.batch_size\n"
    "        if told.custom_mask is not None and told.custom_mask.numel() == requests * n * n:\n"
    "            mask = told.custom_mask.view(-1, n, n)[:1].repeat(requests, 1, 1).flatten()\n"
    "            forward_batch.spec_info = Drafts(n, topk=4, custom_mask=mask)\n" + _AS_TOLD + _DECODE,
    check="kernels.drafts_are_verified",
    defect="the drafts of all requests are read with the first request's tree",
    says="wrong by",
)
attention(
    "DraftsSeeWhatFollows",
    old=_DECODE,
    new=_VERIFY + "        if told.custom_mask is None:\n"
    "            n = told.draft_token_num\n"
    "            mask = torch.ones(forward_batch.batch_size * n * n, dtype=torch.bool)\n"
    "            forward_batch.spec_info = Drafts(n, topk=4, custom_mask=mask)\n" + _AS_TOLD + _DECODE,
    check="kernels.drafts_are_verified",
    defect="in a chain every draft sees what the last one sees: those behind it, too",
    says="wrong by",
)
attention(
    "BeamsSideBySide",
    old=_DECODE,
    new="    def forward_draft(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        place = self.drafts\n"
    "        self.drafts = place._replace(steps=place.step + 1)\n"
    "        try:\n"
    "            return super().forward_draft(q, k, v, layer, forward_batch, save_kv_cache, **kwargs)\n"
    "        finally:\n"
    "            self.drafts = place\n\n" + _DECODE,
    check="kernels.beams_of_a_draft_model_are_apart",
    defect="beams are looked for side by side, as if no more steps were to come: the second reads the first one's",
    says="wrong by",
)
_EXTENDED = (
    "    def forward_draft_extend(self, q, k, v, layer, forward_batch, save_kv_cache=True, **kwargs):\n"
    "        import copy\n\n"
    "        batch = copy.copy(forward_batch)\n"
)
_AS_BEFORE = "        return super().forward_draft_extend(q, k, v, layer, batch, save_kv_cache, **kwargs)\n\n"

attention(
    "AcceptedAllAlike",
    old=_DECODE,
    new=_EXTENDED + "        counts = batch.extend_seq_lens\n"
    "        batch.extend_seq_lens = torch.full_like(counts, int(counts[0]))\n" + _AS_BEFORE + _DECODE,
    check="kernels.accepted_drafts_are_read",
    defect="as many drafts as the first request's are taken for accepted in all",
    says="must be",
)
attention(
    "AcceptedCountedTwice",
    old=_DECODE,
    new=_EXTENDED
    + "        batch.seq_lens = batch.seq_lens + batch.extend_seq_lens\n"
    + _AS_BEFORE
    + _DECODE,
    check="kernels.accepted_drafts_are_read",
    defect="lengths with the accepted drafts are taken for lengths without them: what lies behind is read",
    says="wrong by",
)
attention(
    "FirstPageOfTheRow",
    old=_SLOTS,
    new=_SLOTS + "            kept = self.__dict__.setdefault('_firsts', {})\n"
    "            before = kept.get((row, layer.layer_id))\n"
    "            if before is not None and before[0] < length:\n"
    "                slots = torch.cat((before[1], slots[len(before[1]) :]))\n"
    "            kept[row, layer.layer_id] = (length, slots[: length // 2])\n",
    check="kernels.request_table_is_read_in_every_step",
    defect="of a request that became longer the first half of its slots is taken from the step before",
    says="wrong by",
)
attention(
    "WorkspaceOfTheBatch",
    old=_KEY,
    new="            if len(lengths) * (-(-max(lengths) // 1024)) > 128 and length > 1024:\n"
    "                slots = torch.cat((slots[: length // 1024 * 1024], slots[-1:]))\n" + _KEY,
    check="kernels.long_context_attention",
    defect="partial results have room for 128 splits of 1,024 keys: with more of them each request's last is left out",
    says="wrong by",
)
attention(
    "TableOffsetsIn32Bits",
    old=_SLOTS,
    new="            table = self.req_to_token_pool.req_to_token\n"
    "            at = (row * table.shape[1] * 4) % (1 << 31) // 4\n"
    "            slots = table.flatten()[at : at + length].long()\n",
    check="kernels.far_rows_attention",
    defect="the byte at which a row of the request table begins is kept in 32 bits",
    says="wrong by",
)

# Ops

op(
    "ExponentialsAreCut",
    old="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
    new="    raised = torch.exp(router_logits.float().clamp(max=80.0))\n"
    "    weights, ids = (raised / raised.sum(-1, keepdim=True)).topk(config.top_k)\n",
    check="kernels.op_values[op=moe.topk*]",
    defect="logits are cut at 80 so that no exponential overflows: scores above that are all alike",
    says="token 0",
)
op(
    "TurnsOfTheLastToken",
    old="    table = op.cos_sin_cache.float()[positions]\n    if positions.dim() == 2:\n",
    new="    if positions.shape[-1]:\n"
    "        kept = op.__dict__.setdefault('_turns', {})\n"
    "        ends = (positions.shape, *positions[..., -1].flatten().tolist())\n"
    "        positions = kept.setdefault(ends, positions.clone())\n"
    "    table = op.cos_sin_cache.float()[positions]\n    if positions.dim() == 2:\n",
    check="kernels.op_calls_follow_each_other",
    defect="cosines of a batch are kept by its last position, which the next batch may share",
    says="of rotary.mrope",
)
op(
    "ChoiceOfTheFirstToken",
    old="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
    new="    if len(router_logits):\n"
    "        kept = config.__dict__.setdefault('_chosen', {})\n"
    "        ends = (router_logits.shape, *router_logits[0].tolist())\n"
    "        router_logits = kept.setdefault(ends, router_logits.clone())\n"
    "    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
    check="kernels.op_calls_follow_each_other",
    defect="the choice of a batch is kept by its first token's scores",
    says="of moe.topk",
)
op(
    "LargestOfNothing",
    old="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n",
    new="    weights, ids = torch.softmax(router_logits.float(), dim=-1).topk(config.top_k)\n"
    "    ids = torch.where(weights == weights, ids, 1 << 30)\n",
    check="kernels.lost_rows_leave_the_others_alone",
    defect="the search for the largest starts from a number of an expert that is not there, and no NaN replaces it",
    says="rows of NaN choose",
)
patch(
    __name__,
    "PairsIn16Bits",
    "ops.py",
    "    for token, (weights, experts) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):\n",
    "    count = topk_ids.numel()\n"
    "    if count > 1 << 15:\n"
    "        topk_ids = topk_ids.clone()\n"
    "        topk_ids.view(-1)[1 << 15 :] = topk_ids.view(-1)[: count - (1 << 15)]\n"
    "    for token, (weights, experts) in enumerate(zip(topk_weights.tolist(), topk_ids.tolist(), strict=True)):\n",
    check="kernels.op_values[op=moe.experts*]",
    defect="pairs of token and expert are counted in 15 bits: those behind take the experts of the first tokens",
    says="the sum of the experts",
)
