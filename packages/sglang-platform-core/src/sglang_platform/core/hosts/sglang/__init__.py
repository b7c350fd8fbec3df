"""The adapter to SGLang: `srt/` for its LLM runtime, `diffusion/` for its diffusion runtime, `seams/` for what SGLang
does not ask a platform. Imported only in a process that runs SGLang."""
