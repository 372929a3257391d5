"""Figures of captures that were built by hand: every number can be checked on paper."""

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.instrumentation.sources import CaptureOptions, read_capture
from stepscope.instrumentation.sources.phase_maps import PhaseMap

HTOD, DTOH = "HtoD (Pinned -> Device)", "DtoH (Device -> Pinned)"


def figures(path, **options):
    capture = read_capture(path, CaptureOptions(**options))
    return capture_figures(capture.tables, capture.meta)


def ranges(found):
    return {own.name: own for own in found.ranges}


class TestGraphs:
    """Case 22: ranges and calls seen at capture do not describe the replay."""

    def test_kernels_of_a_replay_belong_to_one_launch(self, kineto, made):
        # GIVEN a range around the capture, one launch of three kernels, and a kernel that nobody launched
        path = kineto([
            made.event("user_annotation", "layer0", 100, 900), made.call(2000, 12, "cudaGraphLaunch", 500),
            made.kernel(2020, 100, 500), made.kernel(2125, 80, 500, "attn"), made.kernel(2210, 20, 500, "norm"),
            made.kernel(2300, 40, 0, "orphan"),
        ])  # fmt: skip
        found = figures(path)
        (graphs,) = found.graphs
        # THEN the launch costs once, the orphan counts as work, and the range launched nothing
        assert (graphs.launches, graphs.launch_host_ns, graphs.kernels, graphs.unlinked_kernels) == (1, 12_000, 3, 1)
        assert sum(own.total_ns for own in found.kernels) == 240_000
        layer = ranges(found)["layer0"]
        assert (layer.gpu_ops, layer.gpu_sum_ns, layer.projected_ns) == (0, None, None)
        assert layer.gpu_reason == "no kernel launched inside the range (capture only)"

    def test_a_graph_traced_whole_is_work(self, export, made):
        export.call(100, 200, "cudaGraphLaunch_v10000", correlation=5)
        export.add(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=300, end=1300, deviceId=0, contextId=1, streamId=7,
            correlationId=5, globalPid=made.global_pid(1001), graphId=1, graphExecId=2,
        )  # fmt: skip
        export.copy(1400, 1500, correlation=6)
        found = figures(export.path)
        assert [(own.busy_ns, own.idle_ns, own.kernel_union_ns) for own in found.devices] == [(1100, 100, 1000)]
        assert [(own.whole_replays, own.kernels_per_launch_p50) for own in found.graphs] == [(1, None)]
        assert "graphs were traced whole; capture with --cuda-graph-trace=node" in [
            own.because for own in found.cannot_say
        ]

    def test_steps_are_graph_steps_or_eager_ones(self, kineto, made):
        mark = [made.event("user_annotation", f"ProfilerStep#{n}", 100 * n, 100) for n in (1, 2, 3)]
        path = kineto([
            *mark, made.call(110, 5, "cudaGraphLaunch", 1), made.kernel(120, 5, 1), made.kernel(126, 5, 1),
            made.call(210, 5, "cudaLaunchKernel", 2), made.kernel(220, 5, 2), made.call(310, 5, "cudaEventRecord", 3),
        ])  # fmt: skip
        (graphs,) = figures(path).graphs
        assert (graphs.graph_steps, graphs.eager_steps, graphs.kernels_per_launch_p50) == (1, 1, 2)


class TestJoins:
    """Case 26: correlation ids, streams and ranges repeat across processes and devices."""

    def test_work_goes_to_the_range_of_its_own_process(self, export):
        for pid, device, end in ((1001, 0, 60_000), (1002, 1, 80_000)):
            export.range(0, 100_000, "forward", pid=pid)
            export.call(5_000, 9_000, "cudaLaunchKernel_v7000", correlation=7, pid=pid)
            export.kernel(20_000, end, correlation=7, pid=pid, device=device)
        found = figures(export.path)
        assert {own.pid: own.gpu_sum_ns for own in found.ranges} == {1001: 40_000, 1002: 60_000}
        assert [(own.device, own.kernels, own.busy_ns) for own in found.devices] == [
            ("0", 1, 40_000), ("1", 1, 60_000),
        ]  # fmt: skip

    def test_the_same_pid_in_two_machines_is_two_processes(self, export, made):
        for vm in (1, 2):
            tid = made.global_pid(7, vm) | 7
            export.add("NVTX_EVENTS", start=0, end=50, eventType=59, text="forward", globalTid=tid, domainId=0)
            export.add(
                "CUPTI_ACTIVITY_KIND_RUNTIME", start=10, end=20, eventClass=0, globalTid=tid, correlationId=1,
                nameId=export.text("cudaLaunchKernel_v7000"), returnValue=0,
            )  # fmt: skip
            export.add(
                "CUPTI_ACTIVITY_KIND_KERNEL", start=30 * vm, end=30 * vm + 10, deviceId=0, contextId=1, streamId=7,
                correlationId=1, globalPid=made.global_pid(7, vm), demangledName=export.text("gemm"),
            )  # fmt: skip
        found = figures(export.path)
        assert sum(own.gpu_ops for own in found.ranges) == 2

    def test_one_id_for_two_gpus_is_told_apart(self, export):
        # GIVEN two processes that each call another GPU their device 0
        export.kernel(0, 10, pid=1)
        export.kernel(5, 15, pid=2)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=1)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=3, cudaId=0, pid=2)
        assert [(own.device, own.busy_ns) for own in figures(export.path).devices] == [("gpu0", 10), ("gpu3", 10)]


    @pytest.mark.parametrize("told", [True, False], ids=["in PROCESSES", "nowhere"])
    def test_pids_of_a_container_do_not_make_one_gpu_of_two(self, export, made, told):
        # GIVEN the same, and pids that the table of devices has as the container counts them
        export.kernel(0, 10, pid=1)
        export.kernel(5, 15, pid=2)
        for pid, inside, gpu in ((1, 71, 0), (2, 72, 3)):
            export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=inside)
            if told:
                export.add("PROCESSES", globalPid=made.global_pid(pid), pid=inside)
        names = ["gpu0", "gpu3"] if told else ["0 of process 1", "0 of process 2"]
        assert [(own.device, own.busy_ns) for own in figures(export.path).devices] == [(names[0], 10), (names[1], 10)]


@pytest.mark.parametrize(
    ("name", "communicates"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", True),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)", True),
        ("void aiter::cross_device_reduce_1stage<opus::bf16_t, 8>(aiter::RankData*)", True),
        ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", True),
        ("nvshmemi_transfer_rma_kernel", True),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", True),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)", False),
        ("void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)", False),
    ],
)
def test_kernels_of_engines_that_communicate(export, name, communicates):
    export.kernel(0, 10, name=name)
    export.kernel(20, 40, name="gemm")
    (found,) = figures(export.path).devices
    assert found.communication_kernels == int(communicates)
    assert (found.communication_union_ns, found.compute_union_ns) == ((10, 20) if communicates else (0, 30))


def test_what_the_runtime_does_by_the_driver_is_done_once(export):
    # GIVEN calls of the driver within those of the runtime, with their ids: both APIs were traced
    for at, name, inner in (
        (1_000, "cudaGraphLaunch_v10000", "cuGraphLaunch"), (2_000, "cudaMemcpyAsync_v3020", "cuMemcpyDtoHAsync_v2"),
        (3_000, "cudaStreamSynchronize_v3020", "cuStreamSynchronize"),
    ):  # fmt: skip
        export.call(at, at + 500, name, correlation=at)
        export.call(at + 100, at + 400, inner, correlation=at)
    export.kernel(1_200, 1_900, correlation=1_000)
    export.copy(2_200, 2_300, correlation=2_000, kind=2, src=2, dst=1, size=4)
    export.range(0, 4_000, "ProfilerStep#1")
    found = figures(export.path)
    # THEN the graph was launched once, the host waited once, and that was an .item()
    (graph,) = found.graphs
    assert (graph.launches, graph.launch_host_ns, graph.kernels) == (1, 500, 1)
    assert [(own.call, own.calls, own.total_ns, own.item_like) for own in found.syncs] == [
        ("cudaStreamSynchronize", 1, 500, 1)
    ]
    step = found.steps.iloc[0]
    assert (step["num_launches"], step["graph_launches"], step["num_syncs"]) == (1, 1, 1)
    # AND each call is still in the list of calls
    assert len(found.calls) == 6


class TestPageable:
    """Case 46: "async" copies of pageable memory."""

    def test_asynchronous_copies_of_pageable_memory_are_flagged(self, export):
        export.copy(1_000, 140_392, correlation=1)
        export.call(100, 140_492, "cudaMemcpyAsync_v3020", correlation=1)
        export.copy(200_000, 260_000, correlation=2, src=1)
        export.call(199_100, 260_100, "cudaMemcpyAsync_v3020", correlation=2)
        export.copy(300_000, 310_000, correlation=3, kind=2, src=2, dst=0)
        export.call(299_100, 310_100, "cuMemcpyDtoHAsync_v2", correlation=3)
        export.copy(400_000, 500_000, correlation=4)
        export.call(399_100, 500_100, "cudaMemcpy_v3020", correlation=4)
        export.copy(600_000, 600_100, correlation=99)
        found = figures(export.path).pageable
        assert [(own.correlation, own.copy_ns, own.blocked_ns) for own in found.longest] == [
            (1, 139_392, 140_392), (3, 10_000, 11_000),
        ]  # fmt: skip
        assert (found.copies, found.copy_ns, found.blocked_ns) == (2, 149_392, 151_392)
        assert (found.unknown_kind, found.unknown_call) == (0, 1)

    def test_the_files_own_numbering_comes_first(self, export):
        # GIVEN a file that counts memory kinds as CUPTI does: 1 is pageable there, not pinned
        for number, label in ((1, "Pageable"), (2, "Pinned"), (3, "Device")):
            export.add("ENUM_CUDA_MEM_KIND", id=number, label=label)
        export.copy(0, 10, src=1, dst=3)
        export.copy(20, 30, src=2, dst=3)
        export.copy(40, 50, src=0, dst=3)
        assert sorted(own.src_kind for own in figures(export.path).copies) == ["pageable", "pinned", "unknown"]

    def test_host_tells_no_kind(self, kineto, made):
        path = kineto([made.call(0, 5, "hipMemcpyAsync", 1), made.copy(10, 5, "HtoD (Host -> Device)", correlation=1)])
        found = figures(path)
        assert [own.src_kind for own in found.copies] == ["unknown"]
        assert (found.pageable.copies, found.pageable.blocked_ns, found.pageable.unknown_kind) == (None, None, 1)
        assert found.pageable.unsaid == "1 of 1 do not tell the host's kind of memory"


class TestHidden:
    def test_copies_under_kernels_and_under_index_building(self, kineto, made):
        # GIVEN copies [10, 30) and [50, 60); a kernel [20, 55) of the device; the host builds indices in [0, 15)
        path = kineto([
            made.event("user_annotation", "gpu_model_runner: preprocess", 0, 15), made.call(1, 1, "cudaMemcpyAsync", 1),
            made.copy(10, 20, HTOD, correlation=1), made.copy(50, 10, HTOD), made.kernel(20, 35),
            made.kernel(10, 50, device=1),
        ])  # fmt: skip
        (hidden,) = figures(path).hidden
        assert (hidden.union_ns, hidden.under_kernels_ns) == (30_000, 15_000)
        assert (hidden.under_index_building_ns, hidden.under_anything_ns) == (5_000, 20_000)
        assert hidden.exposed_ns is None

    def test_without_such_ranges_it_cannot_be_said(self, kineto, made):
        (hidden,) = figures(kineto([made.copy(10, 20, HTOD)])).hidden
        assert hidden.under_index_building_ns is None


class TestSyncs:
    def test_item_shows_as_a_small_copy_back_and_a_synchronisation(self, kineto, made):
        path = kineto([
            made.event("user_annotation", "sample", 0, 100), made.call(10, 5, "cudaMemcpyAsync", 1),
            made.copy(20, 2, DTOH, size=4, correlation=1), made.call(16, 10, "cudaStreamSynchronize", 2),
            made.call(30, 5, "cudaMemcpyAsync", 3), made.copy(40, 2, DTOH, size=4096, correlation=3),
            made.call(36, 10, "cudaStreamSynchronize", 4), made.call(150, 7, "cudaDeviceSynchronize", 5),
            made.call(160, 9, "cudaMemcpy", 6), made.kernel(170, 5),
        ])  # fmt: skip
        found = {(own.range, own.call): own for own in figures(path).syncs}
        own = found["sample", "cudaStreamSynchronize"]
        assert (own.calls, own.total_ns, own.item_like) == (2, 20_000, 1)
        assert found[None, "cudaDeviceSynchronize"].total_ns == 7_000
        assert found[None, "cudaMemcpy"].total_ns == 9_000
        assert len(found) == 3


class TestQueue:
    """Case 35: a start before its call is skew, and belongs to no mean."""

    def test_skew_is_counted_apart(self, kineto, made):
        path = kineto([
            made.call(103, 6, "cudaLaunchKernel", 1), made.kernel(100, 10, 1), made.call(195, 4, "cudaLaunchKernel", 2),
            made.kernel(200.001, 10, 2),
        ])  # fmt: skip
        (own,) = figures(path).queue
        assert (own.n, own.mean_ns, own.max_ns, own.skewed, own.skew_worst_ns) == (1, 5001.0, 5001, 1, -3000)

    def test_only_the_first_kernel_of_a_replay_waited_for_its_call(self, kineto, made):
        path = kineto([made.call(0, 5, "cudaGraphLaunch", 1), made.kernel(20, 10, 1), made.kernel(30, 10, 1)])
        (own,) = figures(path).queue
        assert (own.n, own.max_ns) == (1, 20_000)


class TestGaps:
    def test_what_the_host_did_in_a_gap(self, kineto, made):
        # GIVEN a gap of [20, 100): the host is in `build` until 60, in nothing until 70, then launches
        path = kineto([
            made.call(0, 5, "cudaLaunchKernel", 1), made.kernel(10, 10, 1),
            made.event("user_annotation", "build", 10, 50), made.call(70, 10, "cudaLaunchKernel", 2),
            made.kernel(100, 10, 2), made.event("overhead", "Buffer Flush", 90, 30, pid=-1, tid=0),
        ])  # fmt: skip
        (own,) = figures(path).gaps
        assert (own.gaps, own.idle_ns, own.late_ns, own.late_known_ns) == (1, 80_000, 50_000, 80_000)
        assert own.overhead_ns == 10_000
        assert {share.name: share.idle_ns for share in own.host} == {
            "build": 40_000, "cudaLaunchKernel": 10_000, None: 30_000,
        }  # fmt: skip
        assert (own.longest[0].gap_ns, own.longest[0].host_name, own.longest[0].late_ns) == (80_000, "build", 50_000)

    def test_an_empty_operation_ends_a_gap(self, kineto, made):
        path = kineto([made.kernel(0, 10), made.kernel(50, 0), made.kernel(90, 10)])
        (device,) = figures(path).devices
        assert (device.gaps, device.idle_ns, device.gap_max_ns) == (2, 80_000, 40_000)


class TestSteps:
    def test_work_belongs_to_the_step_of_its_call(self, kineto, made):
        # GIVEN two steps of vLLM on the host, the device one step behind
        names = ["execute_context_1(10)_generation_2(2)", "execute_context_0(0)_generation_3(3)"]
        path = kineto([
            made.event("user_annotation", "engine", 0, 400), made.event("user_annotation", names[0], 10, 80),
            made.event("user_annotation", names[1], 110, 80),
            made.call(20, 5, "cudaLaunchKernel", 1), made.call(120, 5, "cudaLaunchKernel", 2),
            made.call(95, 3, "cudaLaunchKernel", 3), made.call(300, 3, "cudaLaunchKernel", 4),
            made.kernel(115, 30, 1), made.kernel(150, 10, 3), made.kernel(200, 30, 2), made.kernel(310, 5, 4),
        ])  # fmt: skip
        steps = figures(path).steps
        # THEN what was launched between the markers, or behind the last one inside the engine's range, is the step's
        assert steps["num_tokens"].tolist() == [12, 3]
        assert steps["num_reqs"].tolist() == [3, 3]
        assert steps["busy_ns"].tolist() == [40_000, 35_000]
        assert steps["window_ns"].tolist() == [45_000, 115_000]
        assert steps["kernels"].tolist() == [2, 2]

    def test_a_step_of_sglang_with_a_name_of_vllms_form_inside(self, kineto, made):
        path = kineto([
            made.event("user_annotation", "step[DECODE bs=2]", 0, 100),
            made.event("user_annotation", "execute_2_context_0(sq0sk0)_generation_2(sq2sk9)", 20, 60),
            made.call(90, 5, "cudaLaunchKernel", 1), made.kernel(96, 5, 1),
        ])  # fmt: skip
        (step,) = figures(path).steps.to_dict("records")
        assert (step["start_ns"], step["num_reqs"], step["kernels"]) == (0, 2, 1)

    def test_phases_are_told_by_ranges(self, kineto, made):
        path = kineto([
            made.event("user_annotation", "execute_context_0(0)_generation_4(4)", 0, 60),
            made.event("user_annotation", "gpu_model_runner: preprocess", 0, 20),
            made.event("user_annotation", "gpu_model_runner: forward", 20, 30),
            made.call(5, 5, "cudaMemcpyAsync", 1), made.copy(12, 4, HTOD, correlation=1),
            made.call(25, 5, "cudaGraphLaunch", 2), made.kernel(40, 100, 2), made.kernel(130, 30, 2),
        ])  # fmt: skip
        phases = figures(path).phases
        assert phases["phase"].tolist() == ["preprocess", "forward"]
        assert phases["host_ns"].tolist() == [20_000, 30_000]
        assert phases["busy_ns"].tolist() == [4_000, 120_000]
        assert set(phases["origin"]) == {"ranges:vllm_v1"}

    def test_phases_are_inferred_from_a_graph_launch(self, kineto, made):
        path = kineto([
            made.event("user_annotation", "step[DECODE bs=8]", 0, 100), made.call(5, 5, "cudaMemcpyAsync", 1),
            made.copy(12, 4, HTOD, correlation=1), made.call(40, 10, "cudaGraphLaunch", 2), made.kernel(60, 40, 2),
            made.call(60, 5, "cudaLaunchKernel", 3), made.kernel(110, 5, 3),
        ])  # fmt: skip
        phases = figures(path).phases
        assert phases["phase"].tolist() == ["preprocess", "forward", "sample"]
        assert phases["host_ns"].tolist() == [40_000, 10_000, 15_000]
        assert phases["busy_ns"].tolist() == [4_000, 40_000, 5_000]
        assert set(phases["origin"]) == {"inferred"}

    def test_a_map_of_the_users_own(self, kineto, made):
        path = kineto([
            made.event("user_annotation", "tick 1", 0, 50), made.event("user_annotation", "feed", 0, 10),
            made.event("user_annotation", "net", 10, 30), made.call(12, 5, "cudaLaunchKernel", 1),
            made.kernel(20, 7, 1),
        ])  # fmt: skip
        own = PhaseMap("mine", {"preprocess": ("feed",), "forward": ("re:net.*",)}, step=r"re:tick \d+")
        found = figures(path, phase_map=own)
        assert found.steps_from == "mapped"
        assert found.phases["phase"].tolist() == ["preprocess", "forward"]
        assert set(found.phases["origin"]) == {"ranges:mine"}

    def test_without_markers_nothing_is_guessed(self, kineto, made):
        found = figures(kineto([made.call(0, 5, "cudaLaunchKernel", 1), made.kernel(10, 5, 1)]))
        assert found.steps.empty
        assert found.phases.empty
        assert "figures by step" in [own.question for own in found.cannot_say]


class TestCoverage:
    def test_shares_are_counted(self, export):
        export.call(0, 5, "cudaLaunchKernel_v7000", correlation=1)
        export.kernel(10, 20, correlation=1)
        export.kernel(30, 40, correlation=2)
        covered = {own.what: (own.covered, own.of, own.share) for own in figures(export.path).coverage}
        assert covered["device work with its call"] == (1, 2, 0.5)
        assert covered["copies with their call"] == (0, 0, None)

    def test_what_is_absent_is_said(self, export):
        export.kernel(10, 20)
        unsaid = {own.because for own in figures(export.path).cannot_say}
        assert {"the capture has no calls of CUDA", "the capture has no ranges"} <= unsaid

    def test_what_nsys_lost_is_said_before_anything_is_called_idle(self, export):
        export.kernel(10, 20)
        export.add("DIAGNOSTIC_EVENT", severity=2, text="Not all CUDA events might have been collected.")
        assert "nsys: not all CUDA events may be there" in [own.because for own in figures(export.path).cannot_say]


@pytest.mark.parametrize("kind", ["kineto", "nsys"])
def test_a_recording_gives_the_figures_of_its_capture(kind, export, kineto, made, tmp_path):
    from stepscope.instrumentation.recording import Recording
    from stepscope.reports.jsonable import plain

    if kind == "nsys":
        export.range(0, 100, "forward")
        export.call(5, 9, "cudaLaunchKernel_v7000", correlation=7)
        export.kernel(20, 60, correlation=7)
        path = export.path
    else:
        path = kineto([made.event("user_annotation", "ProfilerStep#1", 0, 9), made.call(1, 5, "cudaLaunchKernel", 1),
                       made.kernel(3, 5, 1)])  # fmt: skip
    capture = read_capture(path)
    loaded = Recording.load(capture.save(tmp_path / "r"))
    assert plain(capture_figures(loaded.tables, loaded.meta)) == plain(capture_figures(capture.tables, capture.meta))
