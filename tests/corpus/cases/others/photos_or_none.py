"""Photos of a crawl, of which some cannot be read: the data set gives None for those, and collate leaves them out."""
import argparse
import os
import tempfile

import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

HEADER = b"PHOTO"


class Photos(Dataset):
    def __init__(self, folder, count):
        self.paths = [os.path.join(folder, f"{number}.bin") for number in range(count)]

    def __len__(self):
        return len(self.paths)

    def load(self, path):
        with open(path, "rb") as file:
            data = file.read()
        if not data.startswith(HEADER):
            raise ValueError(f"not a photo: {path}")
        return torch.frombuffer(bytearray(data[len(HEADER):]), dtype=torch.uint8).float()

    def __getitem__(self, index):
        try:
            return {"image": self.load(self.paths[index]), "index": index}
        except (OSError, ValueError):
            return None


def collate(samples):
    kept = [sample for sample in samples if sample is not None]
    if not kept:
        return None
    return {"image": torch.stack([each["image"] for each in kept]), "index": torch.tensor([each["index"] for each in kept])}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--good", type=float, default=0.1)
    parser.add_argument("--start", default="spawn")
    parser.add_argument("--count", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.count):
            is_good = number % 20 < args.good * 20
            with open(os.path.join(folder, f"{number}.bin"), "wb") as file:
                file.write((HEADER if is_good else b"<html>") + os.urandom(64))
        photos = Subset(ConcatDataset([Photos(folder, args.count), Photos(folder, args.count)]), range(args.count))
        loader = DataLoader(photos, 8, shuffle=True, num_workers=2, collate_fn=collate, multiprocessing_context=args.start)
        seen = sum(len(batch["index"]) for batch in loader if batch is not None)
        print("trained on", seen, "photos")


if __name__ == "__main__":
    main()
