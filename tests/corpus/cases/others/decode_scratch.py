"""Decodes recordings by an external decoder that works on files: input and output have fixed names in the work folder."""
import argparse
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor


class Decoder:
    def __init__(self, folder, own_name):
        self.folder, self.own_name = folder, own_name

    def work_file(self):
        return os.path.join(self.folder, f"decode-{os.getpid()}.tmp" if self.own_name else "decode.tmp")

    def __call__(self, recording):
        path = self.work_file()
        with open(path, "wb") as file:
            file.write(recording)
        time.sleep(0.005)  # the decoder
        with open(path, "rb") as file:
            return len(file.read())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--own-name", action="store_true")
    parser.add_argument("--workers", type=int, default=3)
    args = parser.parse_args()
    recordings = [bytes(100 + number) for number in range(240)]
    with tempfile.TemporaryDirectory() as folder:
        with ProcessPoolExecutor(args.workers, multiprocessing.get_context("fork")) as executor:
            lengths = list(executor.map(Decoder(folder, args.own_name), recordings))
    print("wrong lengths:", sum(length != len(each) for length, each in zip(lengths, recordings)))


if __name__ == "__main__":
    main()
