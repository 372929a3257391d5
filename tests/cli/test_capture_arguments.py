"""What `perf capture` hands to our own run, given to the parser of `perf run` itself."""

import inspect

import pytest
import typer
from stepscope.cli import capture, main
from stepscope.experiments import capturing
from stepscope.instrumentation.launch import NsightOptions

SPEC = "workload: {regime: steady, settings: {num_reqs: 2}}\nrunner: {model: tiny}\ndevice: sim\n"
PARAMS = ["runner.model=tiny", "measure.warmup_steps=1"]
NOT_FORWARDED = {"out"}
"""Both have it: the run's lies inside the capture's."""


def verbs(app):
    """Every function behind a verb, those of groups included."""
    for command in app.registered_commands:
        yield inspect.unwrap(command.callback)
    for group in app.registered_groups:
        yield from verbs(group.typer_instance)


def parsed_by(verb, arguments):
    """The values that the real parser of `verb` reads, before anything runs."""
    command = typer.main.get_command(main.app).commands[verb]
    return command.make_context(verb, list(arguments)).params


@pytest.fixture
def handed(tmp_path, monkeypatch):
    """`handed(*options)`: what `perf run` reads of the command line that `perf capture *options` would start."""
    started = []
    monkeypatch.setattr(capturing, "required_nsys", lambda workers: None)
    monkeypatch.setattr(capturing, "capture_nsys", lambda command, *_, **__: started.append(command) or DONE)

    def call(*options):
        out = tmp_path / f"out-{len(started)}"
        assert main.main(["capture", *map(str, options), "--out", str(out)]) == 0
        words = started[-1]
        return parsed_by("run", words[words.index("run") + 1 :])

    return call


DONE = capturing.Captured("done")


def test_every_option_of_our_run_reaches_it(handed, tmp_path):
    # GIVEN a value of each option that both verbs have, but the folder
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    shared = set(inspect.signature(capture.capture).parameters) & set(inspect.signature(main.run).parameters)
    assert shared - NOT_FORWARDED == {"spec", "regime", "steps", "seed", "param", "device"}
    numbers = ("--steps", 3, "--seed", 11, "--device", "cpu", "--param", PARAMS[0], "--param", PARAMS[1])
    # WHEN a spec is captured, and a regime
    by_spec, by_regime = handed("--spec", spec, *numbers), handed("--regime", "steady", *numbers)
    # THEN the run reads the same
    expected = {"steps": 3, "seed": 11, "device": "cpu", "param": PARAMS}
    assert {name: by_spec[name] for name in expected} == expected
    assert (by_spec["spec"], by_spec["regime"]) == (spec, None)
    assert {name: by_regime[name] for name in expected} == expected
    assert (by_regime["spec"], by_regime["regime"]) == (None, "steady")
    assert not by_spec["profiler_window"]


def test_a_window_of_ours_is_opened_by_the_run(handed):
    assert handed("--regime", "steady", "--device", "sim", "--capture-range", "cudaProfilerApi")["profiler_window"]


def test_the_run_lies_inside_the_folder_of_the_capture(tmp_path):
    options = NsightOptions(capture_range="cudaProfilerApi")
    words = capturing.own_command([], tmp_path, options)
    assert parsed_by("run", words[words.index("run") + 1 :])["out"] == tmp_path / capturing.RUN


def test_no_option_owes_its_name_to_its_metavar():
    """Releases 0.27 of typer take the metavar for the flag where both are one word: SPEC became --SPEC."""
    owing = [
        f"{verb.__name__}: {name}"
        for verb in verbs(main.app)
        for name, own in typer.main.get_params_from_function(verb).items()
        if isinstance(own.default, typer.models.OptionInfo)
        and (own.default.metavar or "").lower().replace("_", "-") == name.replace("_", "-")
        and not own.default.param_decls
    ]
    assert owing == []
