"""What a setting can choose by name: to add one, write its module and give it a line here."""

from typing import Any

from retomaton_dist.registry import Registered, Registry

CODECS: Registry[Any] = Registry(
    "codec",
    {
        "pq": Registered("retomaton_dist.codec.pq:PqCodec", "short codes"),
        "fp16": Registered("retomaton_dist.codec.fp16:Fp16Codec", "the keys themselves"),
    },
)
CLUSTERINGS: Registry[Any] = Registry(
    "algorithm",
    {
        "kmeans": Registered("retomaton_dist.stages.kmeans:Kmeans"),
        "greedy": Registered(
            "retomaton_dist.stages.greedy:Greedy", "entries absorb near neighbours of equal value"
        ),
        "none": Registered(
            "retomaton_dist.stages.cluster:NoClusters", "every entry is its own state"
        ),
    },
)
