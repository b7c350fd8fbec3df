from dataclasses import dataclass

BACKENDS = ["triton", "old_one"]
QUANTIZATION_CHOICES = ["awq", "qoq"]


@dataclass
class ServerArgs:
    page_size: int = 1
    old_flag: bool = False
    quantization: str = ""
