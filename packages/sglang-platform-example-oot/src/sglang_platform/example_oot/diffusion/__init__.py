"""The device in SGLang's diffusion runtime. A vendor without one deletes the folder and its entry point."""
