"""As it should be, with freeze_support() and a Pool."""
import multiprocessing


def square(value):
    return value * value


if __name__ == "__main__":
    multiprocessing.freeze_support()
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, range(4)))
