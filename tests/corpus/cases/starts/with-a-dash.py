"""A name that no import statement could have."""
import multiprocessing


def square(value):
    return value * value


if __name__ == "__main__":
    multiprocessing.freeze_support()
    with multiprocessing.Pool(2) as pool:
        print(pool.map(square, range(4)))
