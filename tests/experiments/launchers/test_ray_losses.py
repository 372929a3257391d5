"""What Ray's exceptions mean for a task. Their texts are those of Ray 2.60, from a cluster of three nodes."""

import pytest
from stepscope.experiments.launchers.ray_losses import loss_of


class RayError(Exception):
    pass


def error(name, text, *bases, **fields):
    kind = type(name, bases or (RayError,), {})
    made = kind(text)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


RayActorError = type("RayActorError", (RayError,), {})
ObjectLostError = type("ObjectLostError", (RayError,), {})
UNAVAILABLE = (
    "The actor d92b90ab33bf9a5ed42d12bf01000000 is unavailable: The actor is temporarily unavailable: RpcError: RPC"
    " error: Socket closed rpc_code: 14. The task may or may not have been executed on the actor."
)
DIED = """The actor died unexpectedly before finishing this task.
\tclass_name: RayWorker
\tactor_id: 3efb
\tpid: 4412
\tip: 192.0.2.2
{}"""
NODE = "The actor died because its node has died. Node Id: 1d73"
KILLED = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker"
    " unexpectedly exits with a connection error code 2. End of file. Some common causes include: ..."
)
MEMORY = "Task was killed due to the node running low on memory.\nMemory on the node was 30.1GB / 31.0GB"
IMPORT = "\x1b[36mray::RayWorker.__init__()\x1b[39m (pid=1)\nRuntimeError: x\nModuleNotFoundError: No module named 'a'"


@pytest.mark.parametrize(
    ("made", "kind", "elsewhere", "says"),
    [
        (error("ActorUnavailableError", UNAVAILABLE, RayActorError), "lost", True, "its node does not answer (The"),
        (error("ActorDiedError", DIED.format(NODE), RayActorError), "lost", True, "its node died"),
        (error("ActorDiedError", DIED.format("x"), RayActorError, preempted=True), "lost", True, "was preempted"),
        (error("NodeDiedError", "The node died"), "lost", True, "its node died"),
        (error("OwnerDiedError", "Failed to retrieve object", ObjectLostError), "lost", True, "result was lost"),
        (error("ObjectFetchTimedOutError", "x", ObjectLostError), "lost", True, "result was lost"),
        (error("GetTimeoutError", "Get timed out"), "lost", True, "did not arrive"),
        (
            error("ActorDiedError", DIED.format(KILLED), RayActorError), "killed", False,
            "the worker of Ray was killed (Worker unexpectedly exits with a connection error code 2)",
        ),
        (error("OutOfMemoryError", MEMORY), "host_oom", False, "ran low on memory"),
        (error("ActorDiedError", DIED.format(MEMORY), RayActorError), "host_oom", False, "ran low on memory"),
        (error("ObjectStoreFullError", "Failed to put"), "error", False, "--object-store-memory"),
        (error("RayTaskError", IMPORT), "error", False, "ModuleNotFoundError: No module named 'a'"),
        (
            error("ActorDiedError", f"The actor died because of an error raised in its creation task, {IMPORT}"),
            "error", False, "ModuleNotFoundError: No module named 'a'",
        ),
        (error("RaySystemError", ""), "error", False, "RaySystemError"),
    ],
)  # fmt: skip
def test_what_an_exception_means(made, kind, elsewhere, says):
    loss = loss_of(made)
    assert (loss.kind, loss.elsewhere) == (kind, elsewhere)
    assert says in str(loss)
    assert "\n" not in str(loss)
    assert "\x1b" not in str(loss)
