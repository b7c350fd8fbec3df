"""The adapter to SGLang, one folder or file per concern. Imported only in a process that runs SGLang."""
