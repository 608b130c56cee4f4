"""Keyword spotting on one-second recordings, configured by dataclasses (after a Hydra project)."""
import argparse
import io
import tempfile
import wave
from array import array
from dataclasses import dataclass, field, fields
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class DataConfig:
    folder: str = ""
    recordings: int = 64
    repeat: int = 40
    lengths: int = 1
    open_all: bool = False
    close: bool = True


@dataclass
class LoaderConfig:
    batch_size: int = 4
    num_workers: int = 2
    prefetch_factor: int = 2


@dataclass
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    loader: LoaderConfig = field(default_factory=LoaderConfig)
    epochs: int = 1
    warm_up: float = 0.0


def override(config, settings):
    """`loader.num_workers=4`, as on Hydra's command line."""
    for setting in settings:
        path, _, text = setting.partition("=")
        *parents, name = path.split(".")
        node = config
        for parent in parents:
            node = getattr(node, parent)
        kind = {each.name: each.type for each in fields(node)}[name]
        setattr(node, name, text == "true" if kind is bool else kind(text))
    return config


def record(path, number):
    samples = array("h", (((n * (number + 3)) % 200 - 100) * 50 for n in range(4000)))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(4000)
        file.writeframes(samples.tobytes())


class Keywords(Dataset):
    def __init__(self, config):
        self.config = config
        self.paths = sorted(Path(config.folder).glob("*.wav"))
        self.streams = [open(path, "rb") for path in self.paths] if config.open_all else None
        self.opened = []

    def __len__(self):
        return len(self.paths) * self.config.repeat

    def read(self, number):
        if self.streams:
            return wave.open(io.BytesIO(Path(self.streams[number].name).read_bytes()))
        if self.config.close:
            with open(self.paths[number], "rb") as file:
                return wave.open(io.BytesIO(file.read()))
        recording = wave.open(open(self.paths[number], "rb"))
        self.opened.append(recording)  # to rewind it at the next epoch
        return recording

    def __getitem__(self, index):
        number = index % len(self.paths)
        recording = self.read(number)
        wav = torch.tensor(array("h", recording.readframes(recording.getnframes())), dtype=torch.float32) / 32768
        example = {"wav": wav, "keyword": number % 10}
        for scale in range(1, self.config.lengths):
            example[f"wav_{scale}"] = wav[::scale + 1].clone()
        return example


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 8, 80, 40), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 10))

    def forward(self, batch):
        return nn.functional.cross_entropy(self.net(batch["wav"][:, None]), batch["keyword"])


def train(config):
    torch.set_num_threads(1)
    model = Spotter()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Keywords(config.data), shuffle=True, **vars(config.loader))
    batches = iter(loader)
    if config.warm_up:  # compiling the model
        torch.multiprocessing.get_context().Event().wait(config.warm_up)
    for step, batch in enumerate(batches):
        loss = model(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*")
    config = override(Config(), parser.parse_args().settings)
    with tempfile.TemporaryDirectory() as folder:
        config.data.folder = config.data.folder or folder
        for number in range(config.data.recordings):
            record(Path(folder) / f"{number:04}.wav", number)
        for _ in range(config.epochs):
            train(config)


if __name__ == "__main__":
    main()
