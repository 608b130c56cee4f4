"""Sends images to an annotation tool that people wrote in another language, a filter of lines, one for each worker."""
import argparse
import multiprocessing
import subprocess


class Annotator:
    def __init__(self, unbuffered):
        tool = ["sed", *(["-u"] if unbuffered else []), "s/x/box /g"]
        self.tool = subprocess.Popen(tool, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, image):
        self.tool.stdin.write(f"{image}\n")
        self.tool.stdin.flush()
        return len(self.tool.stdout.readline())


def init(options):
    global annotator
    annotator = Annotator(options.unbuffered)


def annotate(image):
    return image, annotator("x" * (image % 50))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-u", "--unbuffered", action="store_true", help="the tool writes each line at once")
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with multiprocessing.get_context("fork").Pool(options.workers, init, (options,)) as pool:
        total = sum(size for _, size in pool.imap_unordered(annotate, range(options.images)))
    print(total)


if __name__ == "__main__":
    main()
