"""The network of AdaptRet (He et al. 2021, "Efficient nearest neighbor language models").

It sees the query, the LM's entropy and largest probability, and how often the corpus has the token
before and in how many ways it goes on; it says how much the LM and how much kNN-LM is to be
trusted. Sizes, loss and training are those of the authors' code.
"""

import copy
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from retomaton_dist.engine.lm_output import LMOutput
from retomaton_dist.methods.held_out import held_out
from retomaton_dist.methods.token_statistics import TokenStatistics
from retomaton_dist.runtime.progress import part_done

HIDDEN, LAYERS, DROPOUT = 128, 5, 0.2
RATE, BATCH, EPOCHS, SEED = 5e-4, 64, 10, 927
SPARSITY, HELD_OUT = 0.05, 0.1
LEAST_LOG = -1e4
# Rows that are predicted at once.
ROWS = 8192


class _Net(nn.Module):
    """Scalars are widened, joined to the query, and narrowed to two log-shares: LM, kNN-LM."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        width = max(1, dimension // 4)
        self.widen = nn.ModuleList(
            nn.Sequential(nn.Linear(1, width), nn.LeakyReLU(), nn.Linear(width, width))
            for _ in range(4)
        )
        sizes = [dimension + 4 * width, *[HIDDEN] * LAYERS]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.Dropout(DROPOUT), nn.ReLU()]
        self.narrow = nn.Sequential(*layers, nn.Linear(HIDDEN, 2), nn.LogSoftmax(dim=-1))

    def forward(self, queries: Tensor, scalars: Tensor) -> Tensor:
        widened = [net(scalars[:, [place]]) for place, net in enumerate(self.widen)]
        made: Tensor = self.narrow(torch.cat([queries, *widened], dim=1))
        return made


@dataclass(frozen=True, eq=False)
class AdaptRetNetwork:
    """A trained network with the statistics that it looks up."""

    net: _Net
    statistics: TokenStatistics

    def log_shares(self, reading: LMOutput) -> NDArray[np.float64]:
        """Log-shares of the LM and of kNN-LM, [rows, 2]; they sum to 1 as float64."""
        queries, scalars = inputs(reading, self.statistics)
        with torch.inference_mode():
            parts = [
                self.net(queries[first : first + ROWS], scalars[first : first + ROWS])
                for first in range(0, len(queries), ROWS)
            ]
        return torch.log_softmax(torch.cat(parts).double(), dim=-1).numpy()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that `of` needs."""
        weights = {name: weight.numpy() for name, weight in self.net.state_dict().items()}
        numbers = {"frequencies": self.statistics.frequencies}
        return {**weights, **numbers, "fertilities": self.statistics.fertilities}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "AdaptRetNetwork":
        """The network that `arrays` was taken from."""
        weights = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        numbers = [np.asarray(weights.pop(name)) for name in ("frequencies", "fertilities")]
        width = len(weights["widen.0.0.weight"])
        dimension = weights["narrow.0.weight"].shape[1] - 4 * width
        net = _Net(dimension)
        net.load_state_dict(weights)
        return cls(net.eval(), TokenStatistics(*numbers))


def inputs(reading: LMOutput, statistics: TokenStatistics) -> tuple[Tensor, Tensor]:
    """The queries and the four scalars of every row."""
    scalars = np.concatenate(
        [
            reading.entropy[:, None],
            np.exp(reading.confidence)[:, None],
            statistics.of(reading.previous),
        ],
        axis=1,
    )
    queries = torch.from_numpy(reading.queries.astype(np.float32))
    return queries, torch.from_numpy(scalars.astype(np.float32))


def train_adaptret(
    reading: LMOutput,
    log_knn: NDArray[np.float64],
    documents: NDArray[np.int32],
    statistics: TokenStatistics,
) -> tuple[AdaptRetNetwork, dict[str, float]]:
    """Train on nine tenths of the documents; the rest choose the epoch, by perplexity at FoSS 0.5.

    `log_knn` are the log-probabilities of the tokens under the candidates alone.
    """
    torch.manual_seed(SEED)
    held = torch.from_numpy(held_out(documents, HELD_OUT, SEED))
    queries, scalars = inputs(reading, statistics)
    # Numbers of a normalised layer are about 1, as the authors' are; another unit changes nothing.
    unit = float(queries.square().mean().sqrt()) or 1.0
    logs = torch.from_numpy(
        np.maximum(np.stack([reading.log_lm, log_knn], axis=1), LEAST_LOG).astype(np.float32)
    )
    net, epoch = _fit(_Net(queries.shape[1]), (queries / unit, scalars), logs, held)
    with torch.no_grad():
        net.narrow.get_parameter("0.weight")[:, : queries.shape[1]] /= unit
    facts: dict[str, float] = {
        "positions": int((~held).sum()),
        "held_out": int(held.sum()),
        "epochs": EPOCHS,
        "chosen_epoch": epoch,
    }
    return AdaptRetNetwork(net, statistics), facts


def _fit(net: _Net, given: tuple[Tensor, Tensor], logs: Tensor, held: Tensor) -> tuple[_Net, int]:
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    rows = torch.nonzero(~held)[:, 0]
    best, chosen, kept = float("inf"), 0, net.state_dict()
    for epoch in range(1, EPOCHS + 1):
        net.train()
        order = rows[torch.randperm(len(rows))]
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            optimizer.zero_grad()
            torch.autograd.backward(_loss(net(*(part[batch] for part in given)), logs[batch]))
            optimizer.step()
        net.eval()
        part_done(epoch, EPOCHS, "epochs")
        loss = _halved(net, given, logs, held)
        if loss < best:
            best, chosen, kept = loss, epoch, copy.deepcopy(net.state_dict())
    net.load_state_dict(kept)
    return net, chosen


def _loss(shares: Tensor, logs: Tensor) -> Tensor:
    likelihood = torch.logsumexp(shares + logs, dim=-1).mean()
    return -likelihood + SPARSITY * shares[:, 1].exp().mean()


def _halved(net: _Net, given: tuple[Tensor, Tensor], logs: Tensor, held: Tensor) -> float:
    """Mean loss on held-out rows if the half that trusts the LM most is not searched."""
    with torch.inference_mode():
        shares = net(*(part[held] for part in given))
        mixed = torch.logsumexp(shares + logs[held], dim=-1)
        searched = shares[:, 0] < shares[:, 0].median()
        return -float(torch.where(searched, mixed, logs[held][:, 0]).mean())
