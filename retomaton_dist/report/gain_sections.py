"""Sections for the critics: what gets better and worse, what texts share, what calibration does."""

from collections.abc import Mapping, Sequence

from retomaton_dist.report import names
from retomaton_dist.report.page import Figure, Heading, Inline, PagePart, Table, prose
from retomaton_dist.storage.canonical import Json

_TEXTS = {
    "text": "evaluated text",
    "calibration": "calibration text",
    "corpus": "corpus",
}
_TIMES = (2.0, 10.0)


def gains_section(gains: Sequence[Json], figures: Mapping[str, Figure]) -> list[PagePart]:
    """What methods make better and worse against their baselines."""
    if not gains:
        return []
    about = (
        "A token gets better if the method gives it a probability more than 1 % above the "
        "baseline's on the same token, and worse if more than 1 % below. `Gains alone` is what the "
        "perplexity would be, as a ratio, if nothing got worse, and `losses alone` if nothing got "
        "better; together they make the change. Baselines search at every position."
    )
    parts: list[PagePart] = [
        Heading(2, "What gets better and what gets worse"),
        prose(about.replace("`", "")),
        sides_table(gains),
    ]
    for method in dict.fromkeys(one["method"] for one in gains):
        chosen = [one for one in gains if one["method"] == method]
        parts += _method(chosen, figures.get(figure_name(method)))
    return parts


def figure_name(method: str) -> str:
    """The name of a method's figure of gains."""
    return f"gains_{method.replace('+', '_')}"


def _method(gains: Sequence[Json], figure: Figure | None) -> list[PagePart]:
    """The figure of one method, and a table for each grouping."""
    first = gains[0]
    against = names.method_name(first["against"]["method"])
    title = f"{names.method_name(first['method'])} against {against}, by groups of tokens"
    parts: list[PagePart] = [Heading(3, title), *([figure] if figure else [])]
    return [*parts, *(groups_table(gains, title) for title in titles(gains))]


def titles(gains: Sequence[Json]) -> list[str]:
    """The groupings of some points, each once."""
    return list(dict.fromkeys(item["title"] for one in gains for item in one["groupings"]))


def groups_of(one: Json, title: str) -> list[Json]:
    """The groups of one grouping of a point."""
    found = (item["groups"] for item in one["groupings"] if item["title"] == title)
    return next(found, [])


def point_name(one: Json) -> str:
    """A point by its FoSS and thresholds."""
    thresholds = [
        f"{name} {one[name] if isinstance(one[name], str) else names.short(one[name])}"
        for name in ("tau", "sigma")
        if one[name] is not None
    ]
    inside = f" ({', '.join(thresholds)})" if thresholds else ""
    return f"FoSS {one['foss']:.2f}{inside}"


def sides_table(gains: Sequence[Json]) -> Table:
    """Shares of tokens that get better and worse, by how much, and what that comes to."""
    header = (
        "method", "point", "against", "change", "95 % interval", "better", "worse",
        *(f"{side} {times:g} times or more" for times in _TIMES for side in ("better", "worse")),
        "gains alone", "losses alone",
    )  # fmt: skip
    return Table(header, [_sides(one) for one in gains], texts=3)


def _sides(one: Json) -> list[Inline]:
    better, worse, whole = one["better"], one["worse"], one["all"]
    by_times = [dict(map(tuple, side["by_at_least"])) for side in (better, worse)]
    return [
        names.method_name(one["method"]),
        point_name(one),
        names.method_name(one["against"]["method"]),
        change(whole["ratio"]),
        change_interval(whole["interval"]),
        names.percent(better["share"]),
        names.percent(worse["share"]),
        *(names.percent(side.get(times)) for times in _TIMES for side in by_times),
        change(1 / better["factor"]),
        change(worse["factor"]),
    ]


def groups_table(gains: Sequence[Json], grouping: str) -> Table:
    """One grouping: tokens, the baseline's perplexity, and the change at every point."""
    listed = {one["name"]: one for gain in gains for one in groups_of(gain, grouping)}
    fixed = grouping != "how candidates were found"
    columns = ("change", "better", "worse") if fixed else ("tokens", "change", "better", "worse")
    header = [grouping, *(["tokens", "perplexity of the baseline"] if fixed else [])]
    header += [f"{column}, {point_name(one)}" for one in gains for column in columns]
    body = []
    for name in listed:
        row: list[Inline] = [name]
        if fixed:
            row += [f"{listed[name]['tokens']:,}", names.number(listed[name]["baseline"])]
        for gain in gains:
            row += _group_cells(groups_of(gain, grouping), name, with_tokens=not fixed)
        body.append(row)
    return Table(tuple(header), body)


def _group_cells(groups: Sequence[Json], name: str, *, with_tokens: bool) -> list[Inline]:
    found = next((one for one in groups if one["name"] == name), None)
    if found is None:
        return [names.DASH] * (4 if with_tokens else 3)
    interval = found["interval"]
    bounds = f" ({change_interval(interval)})" if interval else ""
    cells: list[Inline] = [f"{found['tokens']:,}"] if with_tokens else []
    shares = [names.percent(found[side], 0) for side in ("better", "worse")]
    return [*cells, change(found["ratio"]) + bounds, *shares]


def shared_section(duplicates: Json) -> list[PagePart]:
    """Evaluated text that is in the corpus or the calibration text."""
    pairs = duplicates.get("pairs")
    if not pairs:
        return []
    about = (
        "Documents that another text has word for word; and almost: stretches of 10 tokens or "
        "more, all of them somewhere in the other text, cover 80 % of the document. They are "
        "evaluated like all others; what is gained without them is said with the gains below."
    )
    header = ("of the", "in the", "documents", "same", "their tokens", "almost", "their tokens")
    body: list[list[Inline]] = [
        [
            _TEXTS.get(pair["text"], pair["text"]),
            _TEXTS.get(pair["in"], pair["in"]),
            f"{pair['documents']:,}",
            *(
                cell
                for kind in ("same", "near")
                for cell in (f"{len(pair[kind]):,}", _share(pair[f"{kind}_tokens"], pair["tokens"]))
            ),
        ]
        for pair in pairs
    ]
    title = Heading(2, "Documents that are in several texts")
    return [title, prose(about), Table(header, body, texts=2)]


def recalibrated_section(found: Sequence[Json]) -> list[PagePart]:
    """How much depends on the calibration text."""
    if not found:
        return []
    about = (
        "Lambda and temperature, fitted anew on documents of the calibration text drawn with "
        "repetition. Over calibration: the whole evaluated text with these constants. Over both: "
        "documents of both texts are drawn. Methods with networks are trained anew only by "
        "`retomaton report --retrain 5`: without that their intervals know nothing of calibration."
    )
    header = (
        "method", "point", "lambda", "temperatures", "perplexity", "interval over calibration",
        "over both", "change against", "over calibration", "over both",
    )  # fmt: skip
    body: list[list[Inline]] = [
        [
            names.method_name(one["method"]),
            point_name(one),
            names.interval(one["lambda"]),
            ", ".join(f"{names.short(t)} ({share:.0%})" for t, share in one["temperatures"]),
            names.number(one["perplexity"]),
            names.interval(one["over_calibration"]),
            names.interval(one["over_both"]),
            _method_or_dash(one.get("baseline")),
            change_interval(one["ratio_over_calibration"]),
            change_interval(one["ratio_over_both"]),
        ]
        for one in found
    ]
    title = Heading(2, "How much depends on the calibration text")
    return [title, prose(about), Table(header, body, texts=4)]


def retrained_section(found: Sequence[Json]) -> list[PagePart]:
    """How much learned mixing moves from network to network."""
    if not found:
        return []
    about = (
        "Networks trained anew on documents of the calibration text drawn with repetition, each "
        "from another seed: the lowest and the highest perplexity of them. Changes are against "
        "the network that the baseline learned from the same draw."
    )
    header = (
        "method", "point", "perplexity", "networks", "lowest", "highest", "change against",
        "lowest", "highest",
    )  # fmt: skip
    body: list[list[Inline]] = [
        [
            names.method_name(one["method"]),
            point_name(one),
            names.number(one["perplexity"]),
            str(len(one["perplexities"])),
            *(names.number(ends(one["perplexities"])) for ends in (min, max)),
            _method_or_dash(one.get("baseline")),
            *(change(ends(one["ratios"])) if one["ratios"] else names.DASH for ends in (min, max)),
        ]
        for one in found
    ]
    title = Heading(2, "How much depends on the network")
    return [title, prose(about), Table(header, body, texts=2)]


def reliability_section(found: Sequence[Json], figures: Mapping[str, Figure]) -> list[PagePart]:
    """Whether probabilities mean what they say."""
    if not found:
        return []
    about = (
        "At every position, the token that the LM finds most probable: how probable each method "
        "says it is, and how often it came. The error is the mean distance of the two over bins "
        "of what was said."
    )
    header = ("method", "clustering", "point", "said on average", "came", "error")
    body: list[list[Inline]] = [
        [
            names.method_name(one["method"]),
            one.get("clustering") or names.DASH,
            point_name(one),
            *(names.percent(one[name], 2) for name in ("said", "came", "error")),
        ]
        for one in found
    ]
    title = Heading(2, "Whether probabilities mean what they say")
    picture = [figures["reliability"]] if "reliability" in figures else []
    return [title, prose(about), *picture, Table(header, body, texts=3)]


def change(ratio: float) -> str:
    """A ratio of perplexities as a change: below 0 is better."""
    return f"{100 * (ratio - 1):+.1f} %"


def change_interval(bounds: Sequence[float] | None) -> str:
    """An interval of such a ratio; a dash if there is none."""
    return names.DASH if bounds is None else f"{change(bounds[0])} to {change(bounds[1])}"


def _method_or_dash(method: str | None) -> str:
    return names.method_name(method) if method else names.DASH


def _share(part: int, whole: int) -> str:
    return names.percent(part / whole) if whole else names.DASH
