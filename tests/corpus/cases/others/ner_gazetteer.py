"""Named entities with a gazetteer: a trie of all place names, built when the module is loaded."""
import argparse
import multiprocessing as mp
import random
import time

SYLLABLES = "ba da ka la ma na ra sa ta wa be de ke le me ne re se te we".split()
END = None


def names(count, seed=1):
    draw = random.Random(seed)
    return ["".join(draw.choices(SYLLABLES, k=draw.randint(2, 5))) for _ in range(count)]


class Trie(dict):
    def insert(self, name):
        node = self
        for letter in name:
            node = node.setdefault(letter, {})
        node[END] = name

    def __contains__(self, word):
        node = self
        for letter in word:
            node = node.get(letter)
            if node is None:
                return False
        return END in node


def build(count):
    trie = Trie()
    for name in names(count):
        trie.insert(name)
    return trie


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=250_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--start", default="spawn")
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--lazy", action="store_true", help="only workers that need it build the trie")
    return parser.parse_args()


ARGUMENTS = parse_arguments()
GAZETTEER = None if ARGUMENTS.lazy else build(ARGUMENTS.places)


def tag(document):
    """Counts the words that are names, and those that are too long for one."""
    words = names(200, seed=document)
    if GAZETTEER is None:
        return sum(len(word) > 8 for word in words)
    return sum(word in GAZETTEER for word in words)


def main():
    began = time.time()
    with mp.get_context(ARGUMENTS.start).Pool(ARGUMENTS.workers) as pool:
        tags = sum(pool.imap_unordered(tag, range(ARGUMENTS.documents)))
    print(f"{tags} entities in {time.time() - began:.1f} s")


if __name__ == "__main__":
    main()
