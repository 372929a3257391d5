"""Gate results made by hand, and by hypothesis with names that nobody would choose."""

from __future__ import annotations

from hypothesis import strategies as st
from stepscope.analysis.gate.beside import Beside
from stepscope.analysis.gate.matching import ALL
from stepscope.analysis.gate.point import Figures, PointVerdict
from stepscope.analysis.gate.result import GateResult, Level, Levels
from stepscope.analysis.gate.suite import Geomean, SuiteVerdict
from stepscope.analysis.gate.verdict import Reason, Verdict, worst

MACHINE = {"gpu": "NVIDIA H200", "driver": "580.1", "torch": "2.11.0", "mig": False, "ecc": None}
REASONS = {
    Verdict.FAIL: Reason.CONFIRMED_FRESH, Verdict.ERROR: Reason.ARM_FAILED, Verdict.INCOMPARABLE: Reason.NOT_IN_BASE,
    Verdict.INCONCLUSIVE: Reason.TOO_WIDE, Verdict.PASS: Reason.WITHIN_LIMIT,
}  # fmt: skip


def verdict(point="decode/bs=32,kv=8192", metric="period_p50_ns", word=Verdict.PASS, effect=0.001, detail=""):
    judged = word in (Verdict.FAIL, Verdict.PASS, Verdict.INCONCLUSIVE)
    figures = Figures(effect, effect - 0.004, effect + 0.004, 0.02, 0.25, 5, 1, 0.0005) if judged else None
    return PointVerdict(point, metric, word, REASONS[word], stage=int(judged), detail=detail, figures=figures)


def level(value):
    return Level(value, value * 0.99, value * 1.01, (value * 0.99, value, value * 1.01))


def result(*points, levels=None, geomeans=None, **changed):
    """The result of `points`; each that was judged has levels of 12 ms unless `levels` says otherwise."""
    points = points or (verdict(),)
    if levels is None:
        levels = {(p.point, p.metric): Levels(level(12e6), level(12e6 * (1 + p.figures.effect)))
                  for p in points if p.figures is not None}  # fmt: skip
    word = worst(p.verdict for p in points)
    suite = SuiteVerdict(
        word, tuple({p.reason for p in points if p.verdict is word}), tuple(points),
        {(p.point, p.metric): 0.5 for p in points if p.figures is not None}, geomeans or {},
    )  # fmt: skip
    return GateResult(**{
        "suite": suite, "kind": "paired", "base": "checkout:base", "head": "checkout:head", "machine": MACHINE,
        "levels": levels, **changed,
    })  # fmt: skip


def every_kind():
    """One point of each verdict, one with awkward characters, and all points together."""
    together = Geomean(0.011, 0.009, 0.013, 4, Verdict.PASS, Reason.WITHIN_LIMIT)
    return result(
        verdict(word=Verdict.FAIL, effect=0.048), verdict("prefill/tok=8192", word=Verdict.PASS),
        verdict('a|b <c> & "d" `e` %41\nnew, line: x', word=Verdict.INCONCLUSIVE, effect=0.03),
        verdict("decode/bs=512", ALL, Verdict.ERROR, detail="head: CUDA out of memory"),
        verdict("new/one", ALL, Verdict.INCOMPARABLE),
        verdict(metric="num_syncs", effect=0.0),
        geomeans={"period_p50_ns": together}, notes=("3 pairs were dropped: thermal slowdown",),
    )  # fmt: skip


TEXTS = st.text(st.characters(), max_size=30) | st.sampled_from([
    "", " ", "-->", "]]>", "<![CDATA[", "&amp;", '"', "'", "\\", "\\n", "\x00", "\x1b[31m", "\u202eevil", "\u2028",
    "\ud800", "a\nb", "a\r\nb", "::error::x", "%0A", "%", "a:b,c", "|", "`", "``", "**", "[x](http://e)", "@team", "#1",
    "<!--", "</script>", "# EOF", "# TYPE x gauge", 'x"} 1\n', "n" * 3000, "\N{FIRE}", "é", "e\u0301", "NaN", "*",
])  # fmt: skip
METRICS = TEXTS | st.sampled_from(["period_p50_ns", "step_ms_p50", "num_syncs", "kv_bytes", "padding_token_share"])
VALUES = st.floats(width=64) | st.sampled_from([0.0, -0.0, 12e6, float("nan"), float("inf"), 1e-300])


@st.composite
def results(draw):
    """Any result at all: names, words, numbers."""
    pairs = draw(st.lists(st.tuples(TEXTS, METRICS), max_size=6, unique=True))
    words = st.sampled_from(list(Verdict))
    points = [verdict(point, metric, draw(words), detail=draw(TEXTS)) for point, metric in pairs]
    sides = [st.none() | st.builds(Level, VALUES, VALUES, VALUES) for _ in range(2)]
    levels = {pair: Levels(draw(sides[0]), draw(sides[1])) for pair in pairs if draw(st.booleans())}
    if not points:
        return result(verdict(ALL, ALL, Verdict.ERROR), levels=levels)
    notes = tuple(draw(st.lists(TEXTS, max_size=2)))
    machine = {"gpu": draw(TEXTS), draw(TEXTS): draw(TEXTS)}
    said = {"commit": draw(st.none() | TEXTS), "time": draw(st.none() | st.just("2026-11-30T02:00:00+00:00"))}
    beside = tuple(Beside(point, metric, 0.01, None, None, 1) for point, metric in pairs if draw(st.booleans()))
    return result(
        *points, levels=levels, base=draw(TEXTS), head=draw(TEXTS), notes=notes, machine=machine, beside=beside, **said
    )  # fmt: skip
