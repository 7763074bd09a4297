"""`rd.open("my.store")`: typed, read-only access to what lies in a store."""

import html
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retomaton_dist.api.describe import as_text, describe
from retomaton_dist.errors import BadInput
from retomaton_dist.storage.canonical import Json
from retomaton_dist.storage.checked import check_stage
from retomaton_dist.storage.corpus import Corpus, Document
from retomaton_dist.storage.datastore import Datastore, Keys
from retomaton_dist.storage.states import States
from retomaton_dist.storage.store import Store
from retomaton_dist.storage.windows import Windows

if TYPE_CHECKING:
    import dask.array as da

    from retomaton_dist.automaton.automaton import Automaton
    from retomaton_dist.automaton.ngrams import NGrams
    from retomaton_dist.automaton.suffixes import Suffixes
    from retomaton_dist.search.searcher import Searcher


@dataclass(frozen=True)
class Entry:
    """One entry and where it comes from.

    `place` is the byte of the token inside its document's text, which begins at `offset` of
    `source` (a row, for .parquet).
    """

    number: int
    value: int
    pointer: int
    document: Document
    position: int
    place: int

    @property
    def source(self) -> str:
        """The file that the entry's document was read from."""
        return self.document.source


class OutOfRange(BadInput, IndexError):
    """There is no such entry or document. An IndexError too: it is what ends an iteration."""


class Documents(Sequence[Document]):
    """The documents of a store, read one at a time."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus)

    def __repr__(self) -> str:
        return f"<{len(self):,} documents of {self._corpus.store}>"

    def __getitem__(self, number: Any) -> Any:
        """Document `number`, or a list of them for a slice."""
        if isinstance(number, slice):
            return [self._corpus[item] for item in range(*number.indices(len(self)))]
        return self._corpus[_checked(number, len(self), "document")]


@dataclass(frozen=True)
class StoreReader:
    """A store opened for reading; nothing is loaded before it is asked for.

    `keys`, `values` and `pointers` are lazy dask arrays over Zarr, for whole-array work.
    `rows(entries)` and `entry(i)` are for random access and come from memory maps.
    """

    store: Store

    @classmethod
    def open(cls, path: str | Path) -> "StoreReader":
        """Open a store; missing, foreign, newer or damaged ones are refused."""
        return cls(Store.open(path))

    def __repr__(self) -> str:
        return repr(self.store)

    def _repr_html_(self) -> str:
        """What notebooks show: the contents of `retomaton inspect`."""
        return f"<pre>{html.escape(as_text(self.describe()))}</pre>"

    @property
    def path(self) -> Path:
        """The store's folder."""
        return self.store.path

    @property
    def entries(self) -> int:
        """N."""
        return self._corpus.entries

    @property
    def dimension(self) -> int:
        """Width d of the keys."""
        return self._datastore.shape.dimension

    @cached_property
    def documents(self) -> Documents:
        """The documents, in corpus order."""
        return Documents(self._corpus)

    @cached_property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens of the corpus, memory-mapped."""
        return self._corpus.tokens

    @cached_property
    def keys(self) -> "da.Array":
        """Keys [N, d] float16 as a lazy dask array."""
        return self._lazy("keys")

    @cached_property
    def values(self) -> "da.Array":
        """Values [N] int32 as a lazy dask array."""
        return self._lazy("values")

    @cached_property
    def pointers(self) -> "da.Array":
        """Pointers [N] int64 as a lazy dask array; -1 at a document's end."""
        return self._lazy("pointers")

    def rows(self, entries: ArrayLike) -> Keys:
        """Keys of any entries, in microseconds per row, from the memory map."""
        chosen = np.asarray(entries)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise BadInput(f"{self.path}: entries are whole numbers, not {chosen.dtype}")
        chosen, keys = chosen.astype(np.int64), self._datastore.keys
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < self.entries):
            raise OutOfRange(f"{self.path}: an entry is outside 0..{self.entries - 1}")
        rows: Keys = keys[chosen]
        return rows

    def entry(self, number: int) -> Entry:
        """One entry with its value, pointer and place in the source."""
        number = _checked(number, self._corpus.entries, "entry")
        corpus = self._corpus
        document = corpus[corpus.document_of(number)]
        position = number - document.first_entry
        token = corpus.first_token(document.number) + corpus.unpredicted + position
        return Entry(
            number=number,
            value=int(Windows(self._datastore, "values", 1)[number : number + 1][0]),
            pointer=int(Windows(self._datastore, "pointers", 1)[number : number + 1][0]),
            document=document,
            position=position,
            place=int(corpus.token_offsets[token]),
        )

    def states(self, name: str = "kmeans", *, verify: bool = True) -> States:
        """A clustering: `centroids`, `state_of_entry` and `sizes`, memory-mapped.

        Here and below, what was altered since it was made is refused unless `verify` is False.
        """
        if verify:
            check_stage(self.store, f"cluster/{name}")
        return self.store.states(name)

    def searcher(
        self,
        name: str = "default",
        *,
        parameters: str | None = None,
        verify: bool = True,
        served: bool = False,
    ) -> "Searcher":
        """Search the index `name`: in this process, or with `served` by the running service.

        `parameters` such as "nprobe=64" win over the index's own (a service has its own, and
        checks its shards itself).
        """
        from retomaton_dist.artifacts import open_index

        opened = open_index(self.store, name, verify=verify and not served)
        if served:
            from retomaton_dist.runtime.search_service import SearchService

            return SearchService.connect(opened)
        from retomaton_dist.search.searcher import open_searcher

        return open_searcher(opened, parameters)

    def automaton(self, name: str, *, verify: bool = True) -> "Automaton":
        """A compiled automaton, mapped; its name is that of its clustering unless it was named."""
        from retomaton_dist.artifacts import open_automaton

        return open_automaton(self.store, name, verify=verify)

    def suffixes(self, name: str = "default", *, verify: bool = True) -> "Suffixes":
        """A suffix index, mapped: entries that follow the longest match of the last tokens."""
        from retomaton_dist.artifacts import open_suffixes

        return open_suffixes(self.store, name, verify=verify)

    def ngrams(self, name: str = "default", *, verify: bool = True) -> "NGrams":
        """An n-gram model of the corpus, mapped: probabilities after the last tokens."""
        from retomaton_dist.artifacts import open_ngrams

        return open_ngrams(self.store, name, verify=verify)

    def describe(self) -> Json:
        """What `retomaton inspect --json` prints."""
        return describe(self.store)

    @cached_property
    def _corpus(self) -> Corpus:
        return self.store.corpus()

    @cached_property
    def _datastore(self) -> Datastore:
        return self.store.datastore()

    def _lazy(self, name: str) -> "da.Array":
        import dask.array as da

        array = self._datastore.array(name)
        return da.from_array(array, chunks=array.chunks, name=False)


def _checked(number: int, count: int, what: str) -> int:
    chosen = operator.index(number) + (count if number < 0 else 0)
    if not 0 <= chosen < count:
        raise OutOfRange(f"{what} {number} is outside 0..{count - 1}")
    return chosen
