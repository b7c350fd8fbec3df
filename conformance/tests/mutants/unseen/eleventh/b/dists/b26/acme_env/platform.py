from sglang_platform.example_oot.platform import ExampleOOTPlatform


class AcmePlatform(ExampleOOTPlatform):
    pass
