"""Random crops of one large raw image that lies on the NAS (no copy fits on the node)."""
import argparse
import mmap
import os

import torch
from torch.utils.data import DataLoader, Dataset


class RawImage(Dataset):
    """`--how read` seeks and reads, `--how map` maps the file."""

    def __init__(self, path, width, crop, count, how):
        self.path, self.width, self.crop, self.count, self.how = path, width, crop, count, how
        self.rows = os.path.getsize(path) // width
        self.file = self.map = None

    def __len__(self):
        return self.count

    def open(self):
        self.file = open(self.path, "rb", buffering=0)
        if self.how == "map":
            self.map = mmap.mmap(self.file.fileno(), 0, prot=mmap.PROT_READ)

    def row(self, number, column):
        start = number * self.width + column
        if self.how == "map":
            return self.map[start:start + self.crop]
        self.file.seek(start)
        return self.file.read(self.crop)

    def __getitem__(self, index):
        if self.file is None:
            self.open()
        generator = torch.Generator().manual_seed(index)
        top = int(torch.randint(self.rows - self.crop, (1,), generator=generator))
        left = int(torch.randint(self.width - self.crop, (1,), generator=generator))
        rows = [torch.frombuffer(bytearray(self.row(top + n, left)), dtype=torch.uint8) for n in range(self.crop)]
        return torch.stack(rows).float() / 255


class AutoEncoder(torch.nn.Module):
    def __init__(self, crop):
        super().__init__()
        self.encode = torch.nn.Linear(crop * crop, 16)
        self.decode = torch.nn.Linear(16, crop * crop)

    def loss(self, images):
        flat = images.flatten(1)
        return torch.nn.functional.mse_loss(self.decode(torch.relu(self.encode(flat))), flat)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--crop", type=int, default=32)
    parser.add_argument("--crops", type=int, default=256)
    parser.add_argument("--how", choices=["read", "map"], default="read")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoEncoder(args.crop)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(RawImage(args.image, args.width, args.crop, args.crops, args.how), batch_size=8, num_workers=args.workers)
    for images in loader:
        loss = model.loss(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
