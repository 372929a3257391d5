"""What of an nsys export may stay: tables and their columns of numbers. No text stands in any of them."""

from __future__ import annotations

_ROW = "start end deviceId contextId greenContextId streamId correlationId globalPid"
_CALL = "start end eventClass globalTid correlationId nameId returnValue overheadType"

NUMBERS: dict[str, str] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": f"{_ROW} demangledName shortName mangledName launchType registersPerThread gridX"
    " gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory gridId graphNodeId graphId",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"{_ROW} bytes copyKind srcKind dstKind srcDeviceId dstDeviceId copyCount"
    " graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": f"{_ROW} value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": f"{_ROW} graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"{_ROW} syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": _CALL,
    "PROFILER_OVERHEAD": _CALL,
    "CUPTI_ACTIVITY_KIND_OVERHEAD": _CALL,
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "PROCESSES": "globalPid pid",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "ANALYSIS_DETAILS": "startTime stopTime duration",
}
"""Copied row by row: a value that is no number becomes null."""

NAMES: dict[str, str] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "demangledName shortName mangledName",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "nameId",
    "PROFILER_OVERHEAD": "nameId",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "nameId",
}
"""Columns that name strings of StringIds: these strings stay, and those of ranges, and no others."""

RANGES = "start end eventType rangeId globalTid endGlobalTid textId domainId"
"""Numbers of NVTX_EVENTS; its `text` stays too, of ranges and domains alone."""
