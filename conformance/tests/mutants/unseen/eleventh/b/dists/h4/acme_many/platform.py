from sglang_platform.example_oot.platform import ExampleOOTPlatform


class AcmeBigPlatform(ExampleOOTPlatform):
    device_name = "acme_big"


class AcmeSmallPlatform(ExampleOOTPlatform):
    device_name = "acme_small"
    supported_page_sizes = (1,)
