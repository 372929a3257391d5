"""docs/claims.md is what the generator makes of the stored runs, to the letter."""

from pathlib import Path

from stepscope.experiments.claims.book import page_of

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "h200"


def test_the_page_in_the_docs_is_generated_from_the_stored_runs() -> None:
    runs = sorted(RESULTS.glob("claims_?.json"))
    assert runs
    made = page_of(runs)
    command = f"perf claims {' '.join(str(path.relative_to(ROOT)) for path in runs)} --out docs/claims.md"
    assert command in made
    assert (ROOT / "docs" / "claims.md").read_text() == made, f"run {command}"
