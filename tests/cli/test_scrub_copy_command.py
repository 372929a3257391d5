"""`perf import --scrub-copy`."""


def a_step(export):
    export.range(0, 100, "forward")
    export.call(5, 9, "cudaLaunchKernel_v7000", correlation=7)
    export.kernel(20, 60, correlation=7)


def test_the_command_writes_copy_and_recording(perf, export, tmp_path):
    a_step(export)
    out = tmp_path / "clean.sqlite"
    ended = perf("import", export.path, "--scrub-copy", out, "-o", tmp_path / "r")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"recording: {tmp_path / 'r'}\nscrubbed copy: {out}\n")
    assert perf("import", out, "-o", tmp_path / "s").out.splitlines()[4:] == ended.out.splitlines()[5:]


def test_the_command_refuses_what_it_cannot_promise(perf, kineto, made, tmp_path):
    path, out = kineto([made.kernel(0, 10)]), tmp_path / "clean.json"
    several = perf("import", path, path, "--scrub-copy", out)
    salvaged = perf("import", path, "--salvage", "--scrub-copy", out)
    assert (several.code, salvaged.code) == (2, 2)
    assert "one by one" in several.err
    assert "would not tell" in salvaged.err
    assert not out.exists()
