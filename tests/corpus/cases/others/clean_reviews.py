#!/usr/bin/env python3
# Clean reviews before tokenisation: strip signatures, urls, repeated punctuation.
import re, sys, time, random
from concurrent.futures import ProcessPoolExecutor, as_completed

WORDS = "the a great bad film plot actor never again loved it camera sound of and to".split()
if "--safe" in sys.argv:
    SIGNATURE = re.compile(r"--\s*\w[\w\s.]*$")
else:
    SIGNATURE = re.compile(r"--\s*((\w+\s?)*\.?)*$")
URL = re.compile(r"https?://\S+")


def review(i):
    r = random.Random(i)
    text = " ".join(r.choice(WORDS) for _ in range(r.randrange(30, 90)))
    if i % 10 == 0:
        text += " -- " + r.choice(["anna", "bob b.", "someone from ohio"])
    if i == 137:  # pasted from a forum
        text += " -- thisreviewisamanuscriptandnotforpublicationinanyformwhatsoever!"
    return text + (" http://example.org/%d" % i if i % 7 == 0 else "")


def clean(chunk):
    out = []
    for i in chunk:
        t = URL.sub("", review(i))
        t = SIGNATURE.sub("", t)
        out.append(re.sub(r"([!?.])\1+", r"\1", t))
    return out


if __name__ == "__main__":
    n = 4000
    t0 = time.time()
    chunks = [range(s, s + 50) for s in range(0, n, 50)]
    with ProcessPoolExecutor(2) as ex:
        futs = [ex.submit(clean, c) for c in chunks]
        done = 0
        for f in as_completed(futs):
            done += len(f.result())
            if done % 1000 == 0:
                print(done, "of", n, flush=True)
    print("took %.1fs" % (time.time() - t0))
