"""The tutorial's loop at module level."""
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.zeros(64, 3)), batch_size=8, num_workers=2)
for batch in loader:
    pass
