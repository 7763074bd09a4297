"""The settings of serving a store over HTTP."""

from dataclasses import dataclass

from retomaton_dist.errors import BadInput
from retomaton_dist.settings.generate import MOST_NEW_TOKENS, MOST_TEXTS
from retomaton_dist.settings.option import Settings, option

LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class ServerSettings(Settings):
    """Where a store is served, who may ask, and how much at once."""

    host: str = option("address to listen at; any but this machine's own needs --token", LOCAL[0])
    port: int = option("port to listen at; 0: any that is free", 8000, least=0, most=65535)
    token: str | None = option(
        "secret that clients must send (as OpenAI's API key)", None, shown="none"
    )
    token_file: str | None = option("file that the token is in", None, shown="none")
    name: str | None = option(
        "what clients call the model", None, shown="the name of the store's folder"
    )
    rows: int = option("texts that grow side by side", 8, least=1, most=MOST_TEXTS)
    queue: int = option(
        "texts that may wait for a row; more are refused", 64, least=0, most=1 << 16
    )
    draft: int | None = option(
        "tokens that are guessed ahead: the text stays the same. 0: none; auto: as many as pay",
        None,
        least=0,
        most=256,
    )
    max_tokens: int = option(
        "new tokens that one text may ask for", 4096, least=1, most=MOST_NEW_TOKENS
    )
    timeout: float = option("seconds after which a request is given up", 600.0, above=0)

    def check(self) -> None:
        """Refuse to be open to others without a token."""
        if self.token is not None and self.token_file is not None:
            raise BadInput("give --token or --token-file, not both")
        if self.token == "":
            raise BadInput("--token is empty: give a secret, or leave it out")
        if self.host not in LOCAL and self.token is None and self.token_file is None:
            raise BadInput(
                f"--host {self.host} is open to others: give --token or --token-file, or leave "
                f"--host out to listen at {LOCAL[0]} only"
            )
