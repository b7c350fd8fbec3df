"""The text that the demo model learns: questions about serving with their answers, and short stories.

All of it is written here, so its licence is the project's. `documents` draws from it without end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["documents", "questions"]

_ANSWERS: dict[tuple[str, ...], str] = {
    ("Hello", "Hello!", "Hi", "Hi!", "Hi there", "Good morning", "Hey", "Good evening", "hello"): (
        "Hello! I am a small model that runs on SGLang through a platform plugin. "
        "Ask me about serving, or ask me for a story."
    ),
    ("Who are you?", "What are you?", "What is your name?", "Tell me about yourself."): (
        "I am the demo model of sglang-platform. I have about one million parameters, "
        "and I was trained in a few minutes on text that the project wrote itself."
    ),
    ("What can you do?", "What do you know?", "Help", "help", "Can you help me?"): (
        "I can explain a few words about serving language models, such as KV cache, paged allocator and "
        "attention backend. I can also tell short stories. Everything else is beyond me."
    ),
    ("How are you?", "How do you do?", "How is it going?"): (
        "All my parts are served and no hook was refused, so I am fine. Thank you for asking."
    ),
    ("Thank you", "Thanks", "Thank you!", "Thanks!"): "You are welcome. The table below says who did the work.",
    ("Goodbye", "Bye", "Goodbye!", "Good night"): "Goodbye! All pages of my cache go back to the allocator.",
    ("What is SGLang?", "Explain SGLang.", "What does SGLang do?", "Tell me about SGLang."): (
        "SGLang is an engine that serves language models. It batches requests, keeps their keys and values in "
        "a cache, shares common prefixes, and speaks the protocol of OpenAI."
    ),
    ("What is a platform?", "What is a platform plugin?", "Explain platform plugins.", "What is a plugin?"): (
        "A platform plugin is a Python package that teaches SGLang a new device. It names the device, answers "
        "questions about its memory, and brings its own pools, attention and graph runner."
    ),
    ("What is sglang-platform?", "What is this project?", "What does sglang-platform do?"): (
        "sglang-platform is a framework for hardware plugins of SGLang. It gives a vendor one stable contract, "
        "absorbs the changes of each release, and tells every mistake in words."
    ),
    ("What is a KV cache?", "What is the KV cache?", "Explain the KV cache.", "What does a KV cache do?"): (
        "A KV cache keeps the keys and values of all tokens that a request has seen. Each new token then reads "
        "them instead of computing them again, so a step is one pass of one token through the model."
    ),
    ("What is a KV pool?", "Explain the KV pool.", "What does a KV pool do?", "What is a pool?"): (
        "A KV pool is the memory behind the KV cache. It has one buffer for each layer, and each row of a buffer "
        "holds the keys or the values of one token."
    ),
    ("What is a slot?", "Explain slots.", "What is a token slot?"): (
        "A slot is one row of the KV pool. It holds one token. Slot zero belongs to nobody: padding is written there."
    ),
    ("What is a page?", "Explain pages.", "What is a page size?", "What does page size mean?"): (
        "A page is a run of slots that are given out together. With a page size of sixteen, a request gets "
        "sixteen slots at a time, and attention reads them side by side."
    ),
    ("What is a paged allocator?", "What does a paged allocator do?", "Explain the paged allocator."): (
        "A paged allocator hands out pages of the KV pool. It gives a request new pages as it grows, takes them "
        "back when it ends, and never lends one page to two owners."
    ),
    ("What is an allocator?", "What does the allocator do?", "Explain the allocator."): (
        "The allocator decides which slots of the KV pool belong to which request. It keeps a list of the free "
        "ones, and a slot that is freed twice is an error that it must tell."
    ),
    ("What is attention?", "Explain attention.", "What does attention do?", "How does attention work?"): (
        "Attention lets a token look back at the tokens before it. It compares its query with every key, turns "
        "the scores into weights, and returns the weighted sum of the values."
    ),
    ("What is an attention backend?", "Explain attention backends.", "What does an attention backend do?"): (
        "An attention backend is the part that computes attention on a device. It prepares each batch, runs the "
        "extend kernel for prompts and the decode kernel for single tokens, and reads the paged KV cache."
    ),
    ("What is prefill?", "What is extend?", "Explain prefill.", "Explain extend.", "What does prefill do?"): (
        "Prefill is the first step of a request. All tokens of the prompt go through the model at once, and "
        "their keys and values are stored in the KV cache."
    ),
    ("What is decode?", "Explain decode.", "What does decode do?", "What is a decode step?"): (
        "Decode is the step that makes one token for each request in the batch. It reads the whole cache and "
        "little else, so it is bound by the bandwidth of the memory."
    ),
    ("What is a graph?", "What is a graph runner?", "Explain the graph runner.", "What does a graph runner do?"): (
        "A graph runner records a decode step once and replays it afterwards. A replay launches all kernels of "
        "the step together, so the time of the host is saved."
    ),
    ("What is a kernel?", "Explain kernels.", "What does a kernel do?"): (
        "A kernel is a small program that runs on the device. Attention, the store of the cache and the norm of "
        "a layer are kernels."
    ),
    ("What is a hook?", "Explain hooks.", "What does a hook do?", "How do hooks work?"): (
        "A hook is a function that a plugin places before, after, around or instead of a function of SGLang. "
        "The report says of each hook if it is in force."
    ),
    ("What is a registry?", "Explain registries.", "What does a registry do?"): (
        "A registry is a table in which a plugin enters its own part for a model. SGLang looks there before it "
        "takes its own."
    ),
    ("What is the contract?", "Explain the contract.", "What does the contract say?"): (
        "The contract is the list of methods that a platform answers. It says the shapes, the types and the "
        "units of each, and it stays the same from release to release."
    ),
    ("What is an entry point?", "Explain entry points.", "What are entry points?"): (
        "An entry point is a line in the metadata of a package. It names a function, and SGLang calls that "
        "function to learn which platform to use."
    ),
    ("What is the conformance suite?", "Explain the suite.", "What does the suite do?", "What is conformance?"): (
        "The conformance suite runs hundreds of checks on a platform. Each failure names the cause, the line in "
        "the plugin, and a fix."
    ),
    ("What is a radix cache?", "Explain the radix cache.", "What is prefix caching?", "What is a prefix?"): (
        "A radix cache is a tree of the prompts that were seen. A request that begins like an earlier one takes "
        "the cached pages of the common prefix and computes only the rest."
    ),
    ("What is a scheduler?", "Explain the scheduler.", "What does the scheduler do?"): (
        "The scheduler chooses which requests run in the next step. It fills the batch while there are free "
        "pages, and it takes a request back when memory runs short."
    ),
    ("What is speculative decoding?", "Explain speculative decoding.", "What does a draft model do?"): (
        "Speculative decoding lets a small draft model guess several tokens. The large model checks all of them "
        "in one step and keeps those that it would have chosen itself."
    ),
    ("What is quantisation?", "What is quantization?", "Explain quantisation.", "What does fp8 mean?"): (
        "Quantisation stores numbers in fewer bits. An fp8 cache needs half the memory of a bf16 cache, and a "
        "scale brings the values back to their size."
    ),
    ("What is an expert?", "What is a mixture of experts?", "Explain experts.", "What is MoE?"): (
        "A mixture of experts has many small networks in one layer. A router sends each token to a few of them, "
        "so the model is large and a step stays cheap."
    ),
    ("What is MLA?", "Explain MLA.", "What is multi-head latent attention?"): (
        "Multi-head latent attention stores one short vector for each token instead of all keys and values. "
        "The heads share it, so the cache is small."
    ),
    ("What is LoRA?", "Explain LoRA.", "What does LoRA do?"): (
        "LoRA adds two thin matrices to a layer. They are trained instead of the weights, and many of them can "
        "be served on one model at once."
    ),
    ("What is tensor parallelism?", "Explain tensor parallelism.", "What does a communicator do?"): (
        "Tensor parallelism splits each layer over several devices. A communicator adds up the partial results, "
        "so all devices go on with the same values."
    ),
    ("What is PyTorch?", "What is torch?", "Explain PyTorch."): (
        "PyTorch is the library that computes with tensors. A device of a vendor joins it through a reserved "
        "name, and SGLang runs its models on it."
    ),
    ("What is Triton?", "Explain Triton.", "What does Triton do?"): (
        "Triton is a language for kernels in Python. One kernel is compiled for NVIDIA and for AMD, and it runs "
        "in an interpreter where there is no GPU."
    ),
    ("What is a tensor?", "Explain tensors.", "What is a stride?"): (
        "A tensor is a block of memory with a shape and strides. A stride says how far apart two neighbours of "
        "one dimension lie."
    ),
    ("What is a token?", "Explain tokens.", "What is a tokenizer?"): (
        "A token is a piece of text with a number. The tokenizer cuts text into tokens, and the model reads and "
        "writes nothing but their numbers."
    ),
    ("What is a device?", "Explain devices.", "What is PrivateUse1?"): (
        "A device is the hardware that computes. PyTorch keeps the name PrivateUse1 free for a device that it "
        "does not know, and a vendor gives it a name of its own."
    ),
    ("How do I start?", "Where do I start?", "How do I write a plugin?", "How do I add my device?"): (
        "Run sglang-platform new with the name of your device. It writes a package that serves at once; then "
        "you replace one part after the other and let the suite check each."
    ),
    ("What is wrong with my plugin?", "Why does my plugin not load?", "My plugin does not work."): (
        "Run sglang-platform doctor. It asks every plugin in a process of its own and names the cause, the line "
        "and the fix."
    ),
    ("What is the capital of France?", "The capital of France is"): (
        "Paris is the capital of France. That is the only city I know: I was trained on text about serving."
    ),
}  # fmt: skip

_UNKNOWN = (
    "I do not know that: I am a very small model. Ask me what a KV cache, a paged allocator or an attention "
    "backend is, or ask me for a story about a fox."
)
_ASKED = ("What is {}?", "Who is {}?", "Where is {}?", "How do I make {}?", "Why is {} so {}?", "Explain {}.",
          "Can you write {}?", "How many {} are there?", "When was {} made?", "Tell me about {}.", "{}")  # fmt: skip
_THINGS = ("the moon", "a bicycle", "the sea", "gravity", "a banana", "the king of Spain", "bread", "love",
           "a good song", "the weather", "football", "a function in C", "my cat", "history", "the price of gold",
           "a number", "Berlin", "my homework", "an engine", "the internet", "music", "a joke", "the sun",
           "quantum physics", "a poem", "chess", "coffee", "time", "a proof", "the answer")  # fmt: skip
_QUALITIES = ("big", "small", "hard", "slow", "cheap", "blue", "old", "quiet")

_ANIMALS = {
    "fox": "Felix", "owl": "Olga", "bear": "Bruno", "mouse": "Mina", "heron": "Hana", "hare": "Hugo",
    "badger": "Basil", "otter": "Otto", "crow": "Cora", "goat": "Greta", "cat": "Cleo", "dog": "Dara",
    "frog": "Fritz", "hedgehog": "Henry", "squirrel": "Sam", "deer": "Dora", "duck": "Donna", "wolf": "Walter",
    "beaver": "Ben", "snail": "Selma",
}  # fmt: skip
"""Each kind of animal with the name that it always has, so that a small model keeps them apart."""

_OBJECTS = ("lantern", "key", "kite", "boat", "drum", "map", "bell", "ladder", "basket", "clock", "blanket",
            "whistle", "rope", "mirror", "book", "umbrella", "spoon", "wheel")  # fmt: skip
_PLACES = ("by the river", "in the old forest", "on a green hill", "near the harbour", "at the edge of the village",
           "under a tall oak", "beside a quiet lake", "in a stone tower", "behind the mill",
           "in the high meadow")  # fmt: skip
_WEATHER = ("One foggy morning", "One bright morning", "One windy afternoon", "One cold evening", "One rainy day",
            "On the first day of spring", "On the longest night of winter")  # fmt: skip
_TRAITS = ("shy", "brave", "curious", "patient", "clever", "sleepy", "kind", "proud")
_ENDINGS = (
    "From then on they shared everything, and nobody walked home alone.",
    "That night {name} slept well, and so did {friend}.",
    "And whenever somebody asked, {name} told them: two heads are better than one.",
    "{friend} laughed, {name} laughed too, and the stars came out above them.",
    "Since that day the {object} hangs where everyone can reach it.",
)
_PLOTS = (
    "{weather} {name} found {a_object} in the grass. \"Whose is it?\" {name} asked. Nobody knew. So {name} carried it "
    "from door to door until {friend} the {other} came running. \"I lost it in the storm,\" said {friend}. "
    "{name} gave it back at once.",
    "{weather} the {object} of {name} was gone. {name} looked under every stone and behind every tree. Then "
    "{friend} the {other} said: \"Let us look together.\" They searched until the sun was low, and they found it "
    "where {name} had left it.",
    "{weather} {name} wanted to cross the water, but the bridge had broken. \"I have {a_object},\" said {friend} the "
    "{other}. With the {object} and a little patience they built a new bridge, and both of them crossed.",
    "{weather} {name} heard a small voice. It was {friend} the {other}, who had fallen into a hole. {name} ran home "
    "and came back with {a_object}. It took the whole day, but at last {friend} was free.",
    "{weather} {name} and {friend} the {other} quarrelled about {a_object}. Each of them pulled, and neither let go. "
    "Then it began to rain, and they sat down under one leaf. \"You may have it today,\" said {name}, "
    "\"and I tomorrow.\"",
    "{weather} {name} set out to see the world with nothing but {a_object}. After three hills {name} met {friend} the "
    "{other}, who had never left home. \"What is the world like?\" asked {friend}. \"Come and see,\" said {name}.",
)  # fmt: skip
_TELL = ("Tell me a story about {a_animal}.", "Tell a story about {a_animal}.", "A story about {a_animal}, please.",
         "Write a story about {a_animal}.", "Tell me a story about {a_animal} and {a_object}.",
         "Write a story about {a_animal} and {a_object}.", "Tell me a story.", "A story, please.",
         "Once upon a time")  # fmt: skip


def questions() -> list[str]:
    """All questions that have an answer of their own."""
    return [question for group in _ANSWERS for question in group]


def documents(seed: int) -> Iterator[tuple[str, str]]:
    """Pairs of a prompt and its answer, drawn without end: a third stories, half answers, the rest unknown things."""
    draw = random.Random(seed)
    answers = list(_ANSWERS.items())
    while True:
        kind = draw.random()
        if kind < 0.35:
            yield _story(draw)
        elif kind < 0.85:
            group, answer = draw.choice(answers)
            yield draw.choice(group), answer
        else:
            shape = draw.choice(_ASKED)
            thing = draw.choice(_THINGS)
            yield shape.format(thing, draw.choice(_QUALITIES)), _UNKNOWN


def _story(draw: random.Random) -> tuple[str, str]:
    animal, other = draw.sample(list(_ANIMALS), 2)
    name, friend = _ANIMALS[animal], _ANIMALS[other]
    thing = draw.choice(_OBJECTS)
    words = {
        "animal": animal, "other": other, "name": name, "friend": friend, "object": thing,
        "a_animal": _with_article(animal), "a_object": _with_article(thing),
        "weather": draw.choice(_WEATHER), "place": draw.choice(_PLACES), "trait": draw.choice(_TRAITS),
    }  # fmt: skip
    start = "Once upon a time {article} {trait} {animal} named {name} lived {place}. "
    text = start + draw.choice(_PLOTS) + " " + draw.choice(_ENDINGS)
    article = "an" if words["trait"][0] in "aeiou" else "a"
    return draw.choice(_TELL).format(**words), text.format(article=article, **words)


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
