#!/usr/bin/env python3
"""Throughput of dlprobe-reference-loader against PyTorch's DataLoader with cv2, on the same JPEGs.

    loader_vs_pytorch.py LOADER [--python PYTHON ...] [--rounds N] [--workers N] [...]

Both read, decode, crop, resize, flip, normalise and collate the same files with the same number of
workers and the same batch size, and the main process only takes the batches. Rounds are interleaved,
so that a busy machine is busy for all. Printed per sharing strategy: the median images/s of each, and
the ratio of the medians (loader / PyTorch); what is wanted is >= 1.0 where both use the same OpenCV
(Debian's python3-torch and python3-opencv). Also printed: the decode-only limit, that is cv2.imdecode
alone in one process per worker, and nothing else.

PYTHON is an interpreter with torch, cv2 and numpy; may be given several times (default: /usr/bin/python3).
Not run by ctest: figures belong to a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MAKE_IMAGES = r"""
import sys, cv2, numpy as np
folder, count, height, width = sys.argv[1], *map(int, sys.argv[2:])
random = np.random.default_rng(0)
for i in range(count):
    picture = np.zeros((height, width, 3), np.float32)
    for scale, weight in ((32, 0.6), (8, 0.3), (2, 0.2)):
        noise = random.integers(0, 256, (max(2, height // scale), max(2, width // scale), 3)).astype(np.float32)
        picture += weight * cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)
    cv2.imwrite(f"{folder}/{i:06}.jpg", picture.clip(0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 90])
"""

# The same steps as tools/reference_loader/transform.cc, as one writes them with cv2 and numpy.
PYTORCH = r"""
import sys, json, time, glob, random
import cv2, numpy as np, torch, torch.multiprocessing
from torch.utils.data import DataLoader, Dataset
folder, workers, batch, height, width, epochs, strategy = sys.argv[1], *map(int, sys.argv[2:7]), sys.argv[7]
torch.multiprocessing.set_sharing_strategy(strategy)
cv2.setNumThreads(0)
MEAN = np.array([0.485, 0.456, 0.406], np.float32) * 255
SCALE = 1 / (np.array([0.229, 0.224, 0.225], np.float32) * 255)

class Images(Dataset):
    def __init__(self):
        self.paths = sorted(glob.glob(folder + "/*.jpg"))
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        image = cv2.imdecode(np.fromfile(self.paths[i], np.uint8), cv2.IMREAD_COLOR)
        share = min(image.shape[1] / width, image.shape[0] / height) * (0.6 + 0.4 * random.random())
        w, h = round(width * share), round(height * share)
        x, y = int(random.random() * (image.shape[1] - w + 1)), int(random.random() * (image.shape[0] - h + 1))
        image = cv2.resize(image[y:y + h, x:x + w], (width, height), interpolation=cv2.INTER_LINEAR)
        if random.random() < 0.5:
            image = cv2.flip(image, 1)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB).astype(np.float32)
        image -= MEAN
        image *= SCALE
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))), i

def main():
    loader = DataLoader(Images(), batch, shuffle=True, num_workers=workers, persistent_workers=True)
    start, images = time.monotonic(), 0
    for _ in range(epochs):
        for samples, labels in loader:
            images += len(labels)
    print(json.dumps({"rate": images / (time.monotonic() - start), "torch": torch.__version__, "cv2": cv2.__version__}))

main()
"""

DECODE_ONLY = r"""
import sys, json, time, glob, multiprocessing
import cv2, numpy as np
cv2.setNumThreads(0)
files = [np.fromfile(path, np.uint8) for path in sorted(glob.glob(sys.argv[1] + "/*.jpg"))]
def decode(_):
    start = time.monotonic()
    for data in files:
        cv2.imdecode(data, cv2.IMREAD_COLOR)
    return len(files) / (time.monotonic() - start)
with multiprocessing.get_context("fork").Pool(int(sys.argv[2])) as pool:
    print(json.dumps(sum(pool.map(decode, range(int(sys.argv[2])), chunksize=1))))
"""


def python(interpreter, code, *arguments):
    done = subprocess.run([interpreter, "-c", code, *map(str, arguments)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout else None


def loader_rate(options, folder, strategy):
    read_end, write_end = os.pipe()
    command = [options.loader, "--data", folder, "--workers", str(options.workers), "--batch-size",
               str(options.batch_size), "--sample-shape", f"3x{options.height}x{options.width}", "--epochs",
               str(options.epochs), "--persistent-workers", "--sharing-strategy", strategy, "--step", "none",
               "--progress-fd", str(write_end)]
    with subprocess.Popen(command, pass_fds=[write_end], stdout=subprocess.DEVNULL) as process:
        os.close(write_end)
        with os.fdopen(read_end, encoding="utf-8") as lines:
            last = json.loads(list(lines)[-1])
    if process.returncode != 0 or last["event"] != "done":
        sys.exit(f"the loader failed: {last}")
    return last["images"] / last["seconds"]


def measure(options, folder, strategy):
    """Rates of each contestant, by name, a list entry a round."""
    rates = {"reference loader": []}
    for round_number in range(options.rounds):
        rates["reference loader"].append(loader_rate(options, folder, strategy))
        for interpreter in options.python:
            result = python(interpreter, PYTORCH, folder, options.workers, options.batch_size, options.height,
                            options.width, options.epochs, strategy)
            rates.setdefault(f"PyTorch {result['torch']}, cv2 {result['cv2']}", []).append(result["rate"])
        print(f"  {strategy}: round {round_number + 1} of {options.rounds}", file=sys.stderr)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader")
    parser.add_argument("--python", action="append")
    for name, default in (("rounds", 5), ("workers", 2), ("batch-size", 32), ("images", 512), ("epochs", 4),
                          ("height", 224), ("width", 224), ("image-height", 256), ("image-width", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    options.python = options.python or ["/usr/bin/python3"]
    with tempfile.TemporaryDirectory() as folder:
        python(options.python[0], MAKE_IMAGES, folder, options.images, options.image_height, options.image_width)
        for strategy in ("file_descriptor", "file_system"):
            rates = {name: statistics.median(values) for name, values in measure(options, folder, strategy).items()}
            own = rates["reference loader"]
            for name, rate in rates.items():
                ratio = "" if rate is own else f"   loader is {own / rate:.2f} x"
                print(f"{strategy:16} {name:32} {rate:8.1f} images/s{ratio}")
        for interpreter in options.python:
            limit = statistics.median(python(interpreter, DECODE_ONLY, folder, options.workers)
                                      for _ in range(options.rounds))
            print(f"{'decode only':16} {interpreter:32} {limit:8.1f} images/s")


if __name__ == "__main__":
    main()
