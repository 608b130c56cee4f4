#!/usr/bin/env python3
"""Trains, and after each epoch lets a separate program score the checkpoint, whose report it reads."""
import argparse
import json
import multiprocessing
import subprocess
import sys

SCORER = """
import json, sys
checkpoint = json.load(sys.stdin)
for image in range(checkpoint["images"]):
    print(json.dumps({"image": image, "score": 1 / (1 + image), "boxes": [[0.1, 0.2, 0.3, 0.4]] * 4}))
print(json.dumps({"mAP": 0.5}))
"""


def load(index):
    return [index * k % 255 for k in range(3000)]


def score(images, how):
    process = subprocess.Popen([sys.executable, "-c", SCORER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    checkpoint = json.dumps({"images": images})
    if how == "communicate":
        report, _ = process.communicate(checkpoint)
    else:
        process.stdin.write(checkpoint)
        process.stdin.close()
        process.wait()
        report = process.stdout.read()
    return json.loads(report.splitlines()[-1])["mAP"]


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--how", choices=["wait", "communicate"], default="wait")
    args = parser.parse_args(argv)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for epoch in range(args.epochs):
            loss = sum(sum(sample) for sample in pool.imap_unordered(load, range(256), chunksize=8)) / 1e9
            print(f"epoch {epoch} loss {loss:.4f} mAP {score(args.images, args.how)}", flush=True)


if __name__ == "__main__":
    main()
