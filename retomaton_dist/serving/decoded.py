"""Text of tokens as they come: what each adds, and what may be shown before the text ended."""

from collections.abc import Sequence

from retomaton_dist.lm.tokenizer import Tokenizer

BROKEN = "\ufffd"
# How SentencePiece writes a space.
SPACE = "\u2581"


class TokenPieces:
    """What each token adds to a text; a character of several tokens comes with its last one."""

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = ()) -> None:
        self._decode = tokenizer.decode
        self._tokens = list(before)
        # Tokens from `_context` on are decoded, since what one looks like may depend on the one
        # before; those from `_new` on were not shown yet.
        self._context, self._new = max(0, len(self._tokens) - 1), len(self._tokens)

    def add(self, token: int) -> str:
        """What is new with this token."""
        self._tokens.append(token)
        known = self._decode(self._tokens[self._context : self._new])
        text = self._decode(self._tokens[self._context :])
        if text.endswith(BROKEN) or len(text) <= len(known):
            return ""
        self._context, self._new = self._new, len(self._tokens)
        return text[len(known) :]


class HeldBack:
    """Text that is shown as it comes, but for an end that may be the beginning of a stop string."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._hold = max((len(word) for word in stop), default=1) - 1
        self._text, self._shown = "", 0

    def add(self, piece: str) -> str:
        """What can be shown now that this came."""
        self._text += piece
        places = [place for word in self._stop if (place := self._text.find(word)) >= 0]
        end = max(self._shown, min([len(self._text) - self._hold, *places]))
        shown, self._shown = self._text[self._shown : end], end
        return shown

    def rest(self, whole: str) -> str:
        """What is left to be shown of the whole text, now that it ended."""
        return whole[self._shown :]


def token_string(tokenizer: Tokenizer, token: int) -> str:
    """A token by itself; one that is no whole character is called as the tokenizer calls it."""
    text, name = tokenizer.decode([token]), token_name(tokenizer, token)
    if not text or BROKEN in text:
        return name
    # Some tokenizers leave out the space that a text begins with.
    return f" {text}" if name.startswith(SPACE) and not text.startswith(" ") else text


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """What the tokenizer calls a token; no two have the same name."""
    name: str | None = tokenizer.backend.id_to_token(token)
    return name or f"token_id:{token}"
