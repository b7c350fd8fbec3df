def moved(x):
    return x


def caller(x):
    return moved(x)
