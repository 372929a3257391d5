"""perf sizes on traces and specs by a dry run, the switch `capture_sizes: optimal`, and both lists run on `sim`."""

import re
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from stepscope.errors import UsageError
from stepscope.experiments.resolve import resolve
from stepscope.experiments.sizing import run as sizing_run
from stepscope.experiments.sizing import source as sizing_source
from stepscope.experiments.sizing.find import SizesRequest, find_sizes
from stepscope.experiments.sizing.watch import Unwatched
from stepscope.reports.sizes_text import render_sizes
from stepscope.runner.devices.calibration import Staircase, load_calibration

AZURE = Path(__file__).resolve().parents[4] / "shared" / "traces" / "azure2023_conv.csv"
CLOSED = """
workload:
  generator:
    num_requests: 20
    prompt: {kind: uniform, low: 4, high: 20}
    output: {kind: uniform, low: 2, high: 24}
runner: {
  graph_mode: full_and_piecewise, max_num_seqs: 24, max_num_batched_tokens: 128, max_model_len: 64, num_blocks: 200,
  model: micro}
device: sim
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "closed.yaml"
    path.write_text(CLOSED)
    return path


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    """azure(options) → the sizes for the trace's first requests; `limit` takes fewer than the 1000 that are copied."""
    if not AZURE.exists():
        pytest.skip("the trace is not here")
    with AZURE.open(newline="") as trace:
        first = "".join(islice(trace, 1001))
    path = tmp_path_factory.mktemp("azure") / AZURE.name
    path.write_text(first)
    return lambda **options: find_sizes(SizesRequest(path=path, **options))


def test_the_held_out_half_of_azure_at_eight_times_the_load(azure):
    found = azure(speed=8.0, limit=300)
    against = {gain.baseline: gain for gain in found.predicted}
    assert against["vllm"].share > -0.01  # never more than 1 % worse
    assert len(found.chosen.sizes) <= len(found.arms[0].sizes) == 51
    assert found.chosen.sizes[-1] == 512


@pytest.fixture
def bending(tmp_path):
    """The bundled calibration, and attention that takes 100 us longer in graphs of more than four rows."""
    calibration = load_calibration("h200")
    sized = Staircase((1, 4, 8), (0, 0, 100_000))
    model = msgspec.structs.replace(calibration.models["llama-1b"], sized_attention=sized)
    path = tmp_path / "bending.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(calibration, models={"llama-1b": model})))
    return path


def test_what_attention_takes_longer_is_left_to_devices_that_have_one(spec, bending, monkeypatch):
    # GIVEN a calibration that knows it WHEN sizes are chosen for a real device, for sim, and for decodes with drafts
    real = spec.with_name("real.yaml")
    real.write_text(CLOSED.replace("device: sim", "device: auto"))
    on_gpu = find_sizes(SizesRequest(path=real, budget=6, calibration=str(bending)))
    on_sim = find_sizes(SizesRequest(path=spec, budget=6, calibration=str(bending)))
    to_sim = find_sizes(SizesRequest(path=real, budget=6, calibration=str(bending), run=4, device="sim"))
    drafts = find_sizes(SizesRequest(path=real, budget=6, calibration=str(bending), drafts=1))
    # auto is sim here, once the lists are run
    monkeypatch.setattr(sizing_source, "default_device", lambda: "sim")
    auto = find_sizes(SizesRequest(path=real, budget=6, calibration=str(bending), run=4))
    # THEN it counts on the real device alone
    dearer = on_gpu.arms[0].step_mean_ns - on_sim.arms[0].step_mean_ns
    assert 0 < dearer <= 100_000
    assert dict(on_gpu.facts)["times"].endswith("without attention, plus what attention adds in larger graphs")
    assert to_sim.arms == auto.arms == on_sim.arms
    assert {dict(found.facts)["times"][-17:] for found in (on_sim, to_sim, auto, drafts)} == {"without attention"}
    # AND the same steps are judged: it does not change when they come
    assert dict(on_gpu.facts)["judged"] == dict(on_sim.facts)["judged"]


def test_the_gain_at_light_load_has_an_interval(azure):
    found = azure(speed=1.0, limit=60)
    gain = found.predicted[0]
    assert gain.low_ns is not None
    assert gain.low_ns <= gain.mean_ns <= gain.high_ns
    assert gain.share > -0.01


def test_both_lists_are_run_and_the_prediction_is_what_was_measured(spec, monkeypatch):
    # GIVEN requests that all wait at the start: the steps do not depend on how long each takes
    monkeypatch.setattr(sizing_run, "SETTLE", 3)  # the runners join in the middle
    found = find_sizes(SizesRequest(path=spec, run=1000, budget=4))
    measured, predicted = found.measured[0], found.predicted[0]
    assert measured.steps == predicted.steps > 8
    # THEN sim, which goes by that curve, takes what was predicted: attention is the same in both arms
    assert measured.mean_ns == pytest.approx(predicted.mean_ns, abs=2)
    assert measured.mean_ns != 0
    assert measured.low_ns <= measured.mean_ns <= measured.high_ns
    assert found.measured_as == "on sim, device time of the forward"


def test_on_the_cpu_the_forward_s_host_time_is_compared(spec):
    found = find_sizes(SizesRequest(path=spec, run=4, budget=4, device="cpu"))
    assert found.measured[0].steps == 4
    assert found.measured_as == "on cpu, host time of the forward, which is computed there"


def test_steps_that_ran_without_times_are_not_called_not_run(spec, monkeypatch):
    # GIVEN a device that waited for the host in every step
    times = sizing_run.BothLists.times

    def without(both):
        both.clock = SimpleNamespace(time_ns=lambda noted: None)
        return times(both)

    monkeypatch.setattr(sizing_run.BothLists, "times", without)
    found = find_sizes(SizesRequest(path=spec, run=4, budget=4, device="cpu"))
    # THEN what happened is told, once
    why = "4 steps were run, and no forward has a time: the device waited for the host in each"
    assert re.findall("^.*measured: .*$", render_sizes(found), re.MULTILINE) == [f"not measured: {why}"]


class Impatient(Unwatched):
    """Presses Ctrl-C when `stage` has come to `done`."""

    def __init__(self, stage, done):
        self.stage, self.done, self.stages, self.interrupted = stage, done, [], False

    def begin(self, what, total):
        self.stages.append((what, total))

    def to(self, done):
        self.interrupted |= self.stages[-1][0].startswith(self.stage) and done >= self.done


def test_interrupted_it_says_what_is_known(spec, monkeypatch):
    whole = find_sizes(SizesRequest(path=spec, budget=4))
    # WHEN the dry run is broken off
    dry = find_sizes(SizesRequest(path=spec, budget=4, run=50), Impatient("requests answered", 10))
    assert 2 <= dry.predicted[0].steps < whole.predicted[0].steps
    assert re.search(r", interrupted after \d+ steps, modelled", dict(dry.facts)["steps"])
    assert dry.why_not == "interrupted"
    # AND when the run is, the steps that both lists have run are compared
    monkeypatch.setattr(sizing_run, "SETTLE", 3)
    watch = Impatient("steps run", 7)
    run = find_sizes(SizesRequest(path=spec, budget=4, run=50), watch)
    assert [what for what, _ in watch.stages][1:] == ["steps scheduled, not run", "steps run with both lists"]
    assert 0 < run.measured[0].steps < whole.predicted[0].steps
    assert run.measured[0].mean_ns == pytest.approx(run.same_steps[0].mean_ns, abs=2)
    # AND where nothing is known yet it just ends
    with pytest.raises(KeyboardInterrupt):
        find_sizes(SizesRequest(path=spec), Impatient("requests answered", 0))


def test_limits(spec):
    found = find_sizes(SizesRequest(path=spec, multiple=4, force=(20,), maximum=40, budget=5))
    assert found.chosen.sizes[-1] == 40
    assert 20 in found.chosen.sizes
    assert all(size % 4 == 0 for size in found.chosen.sizes)
    assert len(found.chosen.sizes) <= 5
    drafted = find_sizes(SizesRequest(path=spec, drafts=2))
    assert all(size % 3 == 0 for size in drafted.chosen.sizes)
    assert drafted.decode_tokens == 3


OPEN = """
workload:
  generator:
    num_requests: 24
    prompt: {kind: uniform, low: 4, high: 20}
    output: {kind: uniform, low: 2, high: 24}
    arrivals: {kind: poisson, rate: 400}
runner: {
  graph_mode: full_and_piecewise, max_num_seqs: 24, max_num_batched_tokens: 128, max_model_len: 64, num_blocks: 200,
  model: micro}
device: sim
"""


def test_requests_that_arrive_by_the_clock_make_the_same_steps_on_a_slow_host(tmp_path):
    # GIVEN requests whose arrivals the host of this test cannot keep up with
    path = tmp_path / "open.yaml"
    path.write_text(OPEN)
    found = find_sizes(SizesRequest(path=path, run=1000, budget=4))
    measured, same = found.measured[0], found.same_steps[0]
    # THEN every held-out step is run by both lists, and saves what was predicted; but for those that it stopped in
    untimed = int(dict(found.facts).get("run", "0 steps").split()[0])
    assert measured.steps == same.steps == found.predicted[0].steps - untimed > 8
    assert measured.mean_ns == pytest.approx(same.mean_ns, abs=2)


def test_rows_of_a_trace_that_are_left_out_are_told(tmp_path):
    # GIVEN a trace with a row that is none
    rows = [f"2023-11-16 18:15:{second:02d}.5,30,8" for second in range(40, 50)]
    trace = tmp_path / "torn.csv"
    trace.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows, "2023-11-16 18:16"]) + "\n")
    assert "1 rows skipped: malformed" in dict(find_sizes(SizesRequest(path=trace, budget=4)).facts)["workload"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 1, "force": (20,)}, "do not fit the limit"),
        ({"memory_mib": 100}, "--memory: the memory of a graph is not known"),
        ({"multiple": 0}, "--multiple: 0 is too small; at least 1"),
        ({"run": -1}, "--run: -1 steps cannot be run"),
        ({"maximum": 0}, "--max: 0 is too small"),
        ({"force": (8, 0)}, "--force: 0 is too small"),
        ({"train": 1.5}, "--train: 1.5 leaves nothing"),
        ({"device": "sim"}, "--device: is where both lists are run; add --run STEPS"),
        ({"device": "gpu", "run": 3}, "--device: 'gpu' is unknown; one of auto, cpu, sim, cuda"),
        ({"limit": 3}, "closed.yaml: --limit and --speed belong to a trace"),
        ({"maximum": 100_000}, "an eager forward of 100000 tokens lies above"),
        ({"cost_model": "llama-70b"}, "llama-70b"),
    ],
)
def test_what_cannot_be_is_refused(spec, options, message):
    with pytest.raises(UsageError, match=message):
        find_sizes(SizesRequest(path=spec, **options))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload: {regime: steady}\nrunnr: {}\n", "bad.yaml: unknown key 'runnr'; did you mean 'runner'"),
        ("workload: {regime: steady}\ngrid: {seed: [1, 2]}\n", "bad.yaml: grid: makes several points"),
    ],
)
def test_a_spec_that_says_something_else_is_refused(tmp_path, text, message):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        find_sizes(SizesRequest(path=path))


def test_optimal_becomes_a_list_when_a_point_is_resolved():
    tree = {
        "workload": {"generator": {
            "num_requests": 12, "prompt": {"kind": "fixed", "value": 9}, "output": {"kind": "fixed", "value": 20},
        }},
        "runner": {"graph_mode": "full", "capture_sizes": "optimal", "max_num_seqs": 12},
        "device": "sim",
    }  # fmt: skip
    sizes = resolve(tree).runner.capture_sizes
    # THEN the decodes of 12 tokens get a size whose T is the least that holds them, and the maximum stays
    assert 12 <= min(size for size in sizes if size >= 12) <= 16
    assert sizes[-1] == 24
    # AND it is resolved once: equal resolved points are equal experiments
    assert resolve(tree).runner.capture_sizes == sizes
    tree["runner"]["graph_mode"] = "none"
    assert resolve(tree).runner.capture_sizes == (1, 2, 4, 8, 16, 24)


def test_optimal_without_a_workload_is_refused():
    from stepscope.runner.config import RunnerConfig
    from stepscope.runner.validity import validate

    with pytest.raises(UsageError, match="capture_sizes: optimal is found from a workload"):
        validate(RunnerConfig(capture_sizes="optimal"))
