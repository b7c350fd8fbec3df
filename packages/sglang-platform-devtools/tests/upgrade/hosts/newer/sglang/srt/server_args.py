from dataclasses import dataclass

BACKENDS = ["triton"]
QUANTIZATION_CHOICES = ["awq"]


@dataclass
class ServerArgs:
    page_size: int = 1
    quantization: str = ""
