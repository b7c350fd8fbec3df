"""Why no check fails on some of the unseen platforms, and none should."""

REASONS: dict[str, str] = {
    "ResidualRoundedFirst": "the contract leaves open whether the sum is rounded before it is normalised; SGLang's own"
    " kernels do both",
    "IdleTaken": "a replay of padded rows alone answers no row and writes to the padding slot only, as it may",
    "FlatRowsRefused": "SGLang hands keys and values over by heads, and a pool that takes nothing else is healthy",
    "ScaleInHalf": "SGLang's own pools divide in the type of the input, and are rounded twice too",
    "IndexScaleOfFirstBlock": "SGLang's indexer has keys of 128 numbers, with one scale; its pool refuses others",
    "QueryIsViewed": "every form of queries that SGLang hands over can be viewed by heads",
    "SlowByContext": "the default tier does not time contexts that are long enough; the thorough one does",
    "SlowCapture": "nobody can say how long a device may take to capture",
    "DoubleFreeAccepted": "a page named twice in one call is freed once: nothing is lent twice",
    "TopKCustomRoutingIgnored": "the adapter does not hand a model's own routing function over; the host routes",
    "MoEWeightOnInputOfMany": "models that put the router's weight on the input (Llama 4) choose one expert",
    "GeluSliceMisread": "what an MLP's first product answers is a tensor of its own",
    "StageTakesOneTensor": "only a host's runner has buffers for a stage: features.pipeline_parallel asks for it",
    "StagePaddingStays": "only a host's runner has buffers for a stage, and rows of padding are not returned",
    "GraphsInAnyOrder": "the reference's attention prepares a capture and a replay alike, so nothing is changed",
    "GradientModeStaysOff": "SGLang runs every step with gradients off",
}
