"""webdataset-like: shards of tar files, a class-balanced stream, two shuffling workers that feed one queue."""
import argparse
import io
import itertools
import json
import multiprocessing as mp
import os
import random
import tarfile
import tempfile


def write_shards(folder, shards, samples, classes):
    for number in range(shards):
        with tarfile.open(os.path.join(folder, f"train-{number:04}.tar"), "w") as archive:
            for index in range(samples):
                data = json.dumps({"label": index % classes, "pixels": [index] * 64}).encode()
                info = tarfile.TarInfo(f"{index:06}.json")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


class Shards:
    """An iterable over samples of the shards of one worker, for ever."""

    def __init__(self, paths, seed):
        self.paths, self.random = paths, random.Random(seed)

    def __iter__(self):
        while True:
            path = self.random.choice(self.paths)
            with tarfile.open(path) as archive:
                for member in archive:
                    yield json.loads(archive.extractfile(member).read())


class Balanced:
    """As many samples of each class, in turn."""

    def __init__(self, source, classes):
        self.source, self.classes = source, classes

    def __iter__(self):
        stream = iter(self.source)
        for wanted in itertools.cycle(range(self.classes)):
            for sample in stream:
                if sample["label"] == wanted:
                    yield sample
                    break


def feed(source, queue, batch_size):
    stream = iter(source)
    while True:
        queue.put(list(itertools.islice(stream, batch_size)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=20, help="that the shards have")
    parser.add_argument("--model-classes", type=int, default=21, help="that the model asks for")
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--start", default="fork")
    options = parser.parse_args()
    context = mp.get_context(options.start)
    with tempfile.TemporaryDirectory() as folder:
        write_shards(folder, 4, 200, options.classes)
        paths = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        queue = context.Queue(maxsize=8)
        workers = [context.Process(target=feed, daemon=True, args=(
            Balanced(Shards(paths[number::2], number), options.model_classes), queue, 16)) for number in range(2)]
        for worker in workers:
            worker.start()
        for step in range(options.batches):
            batch = queue.get()
            if step % 20 == 0:
                print(f"step {step}: {sum(sample['label'] for sample in batch)}", flush=True)
        for worker in workers:
            worker.terminate()


if __name__ == "__main__":
    main()
