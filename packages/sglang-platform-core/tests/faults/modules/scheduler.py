"""A small engine, whose functions and methods the faults of hooks hook."""

LIMIT = 8


def schedule(batch, size=1):
    return f"{batch} scheduled"


class Base:
    @classmethod
    def named(cls, name):
        return f"{cls.__name__} {name}"

    @staticmethod
    def rounded(size):
        return f"rounded {size}"


class Scheduler(Base):
    def run(self, batch):
        return f"ran {batch}"

    @property
    def load(self):
        return "a load"

    async def receive(self):
        return "a request"

    def stream(self):
        yield "token"
