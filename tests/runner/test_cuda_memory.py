"""Host memory of the cuda device where locking pages fails or is limited: a GPU is not needed to try."""

import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.recording.schema import BUFFERS
from stepscope.runner.buffers.factory import BufferFactory
from stepscope.runner.devices import cuda_memory
from stepscope.runner.devices.cpu import CpuDevice
from stepscope.runner.devices.memory import PageLocked

KIB = 1024


@pytest.fixture
def driver(monkeypatch):
    """Stands in for the driver: locks pages by the books, up to `left` bytes."""

    class Driver:
        left = 1 << 40
        in_use = 0

        def __init__(self):
            self.books = PageLocked()

        def lock(self, shape, dtype):
            tensor = self.books.zeros(shape, dtype)
            if tensor.nbytes > self.left:
                raise RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported")
            return tensor

    driver = Driver()
    monkeypatch.setattr(cuda_memory, "page_locked", driver.lock)
    monkeypatch.setattr(cuda_memory, "locked_in_use", lambda: driver.in_use)
    monkeypatch.setattr(cuda_memory, "is_wsl", lambda: False)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: driver.books.holds(tensor))
    return driver


def zeros(memory, size):
    return memory.kind(memory.zeros((size,), torch.uint8, pinned=True))


def test_memory_is_locked_where_it_is_asked_for(driver):
    memory = cuda_memory.HostMemory()
    assert (memory.pinned, memory.reason) == (True, "")
    assert zeros(memory, 100) == "pinned"
    assert memory.kind(memory.zeros((4,), torch.int32, pinned=False)) == "pageable"


def test_a_driver_that_locks_nothing(driver):
    driver.left = 0
    memory = cuda_memory.HostMemory()
    assert (memory.pinned, memory.reason) == (False, "page-locked memory is not available: CUDA error: out of memory")
    assert zeros(memory, 100) == "pageable"


def test_memory_that_runs_out_on_the_way(driver):
    memory = cuda_memory.HostMemory()
    driver.left = 64 * KIB
    assert [zeros(memory, size) for size in (KIB, 65 * KIB, KIB)] == ["pinned", "pageable", "pageable"]
    assert (memory.pinned, memory.reason) == (False, "page-locked memory ran out: CUDA error: out of memory")


def test_half_of_a_containers_limit_may_be_locked(driver):
    # GIVEN a limit of 64 KiB, of which requests of 5 KiB take 8 each
    memory = cuda_memory.HostMemory(64 * KIB)
    assert [zeros(memory, 5 * KIB) for _ in range(4)] == ["pinned"] * 4
    # WHEN a fifth is asked for and the first three were given back meanwhile, it is locked
    driver.in_use = 8 * KIB
    assert zeros(memory, 5 * KIB) == "pinned"
    # THEN one that does not fit is not, and the reason has the numbers
    driver.in_use = 30 * KIB
    assert zeros(memory, 17 * KIB) == "pageable"
    assert memory.reason == (
        "the container's limit of 65536 bytes leaves 32768 for page-locked memory: 30720 are in use and 32768 were"
        " asked for"
    )


@pytest.mark.parametrize(
    ("release", "wsl"), [("5.15.153.1-microsoft-standard-WSL2\n", True), ("4.4.0-19041-Microsoft", True),
                         ("6.8.0-45-generic", False)],
)  # fmt: skip
def test_windows_subsystem_for_linux_by_its_kernel(tmp_path, release, wsl):
    path = tmp_path / "osrelease"
    path.write_text(release)
    assert cuda_memory.is_wsl(path) is wsl


def test_wsl_is_not_tried(driver, monkeypatch):
    monkeypatch.setattr(cuda_memory, "is_wsl", lambda: True)
    memory = cuda_memory.HostMemory()
    assert memory.pinned is False
    assert "Windows Subsystem for Linux" in memory.reason


class Running(CpuDevice):
    """A device with real host memory rules; copies are the cpu device's."""

    pinned = property(lambda self: self.memory.pinned)
    pinned_reason = property(lambda self: self.memory.reason)

    def __init__(self, ledger):
        super().__init__(ledger)
        self.memory = cuda_memory.HostMemory()

    def host_tensor(self, shape, dtype, *, pinned):
        return self.memory.zeros(shape, dtype, pinned=pinned)

    def is_pinned(self, tensor):
        return self.memory.is_pinned(tensor)


@pytest.mark.parametrize("staging", ["pinned_ring", "fresh_pinned"])
def test_buffers_say_what_they_are_made_of(driver, staging):
    # GIVEN page-locked memory for one buffer but not for a larger one
    ledger = Ledger()
    factory = BufferFactory(Running(ledger), ledger, staging)
    driver.left = 2 * KIB
    for name, size in (("small", 100), ("large", 3000)):
        buffer = factory.buffer(name, size, torch.uint8)
        buffer.acquire()
        buffer.publish(size)
    # THEN each row tells its buffer's memory, and pageable memory is not counted as rounded up
    names = ["step", *(column.name for column in BUFFERS)]
    rows = [dict(zip(names, row, strict=True)) for row in ledger.rows["buffers"]]
    slots = 2 if staging == "pinned_ring" else 1
    assert [(row["memory"], row["reserved_bytes"]) for row in rows] == [
        ("pinned", 128 * slots), ("pageable", 3000 * slots),
    ]  # fmt: skip
