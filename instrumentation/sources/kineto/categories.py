"""Categories of events, decoded to members of an Enum: no text is made of one, and each knows what becomes of it.

GPU membership comes from the category alone: CPU operators may carry a stream, and synchronisations sit on the GPU's
rows without being work.
"""

from __future__ import annotations

from enum import Enum

IS_KERNEL, IS_COPY, IS_MEMSET, IS_CALL, IS_OP, IS_RANGE, IS_OVERHEAD = range(7)
"""What is kept; that of the host comes last."""
COUNT = LEFT_OUT = IS_OVERHEAD + 1


class Category(Enum):
    """The texts that traces have, and what becomes of such events, in `code`: LEFT_OUT for what no figure needs.

    A category that is not listed is one of these in other letters, or left out; that costs each event a microsecond.
    """

    code: int

    UNKNOWN = "", LEFT_OUT
    KERNEL = "kernel", IS_KERNEL
    GPU_KERNEL = "gpu_kernel", IS_KERNEL
    GPU_MEMCPY = "gpu_memcpy", IS_COPY
    MEMCPY = "memcpy", IS_COPY
    GPU_MEMSET = "gpu_memset", IS_MEMSET
    MEMSET = "memset", IS_MEMSET
    CUDA_RUNTIME = "cuda_runtime", IS_CALL
    CUDA_DRIVER = "cuda_driver", IS_CALL
    HIP_RUNTIME = "hip_runtime", IS_CALL
    HIP_DRIVER = "hip_driver", IS_CALL
    RUNTIME = "runtime", IS_CALL
    DRIVER = "driver", IS_CALL
    CPU_OP = "cpu_op", IS_OP
    OPERATOR = "operator", IS_OP
    USER_ANNOTATION = "user_annotation", IS_RANGE
    OVERHEAD = "overhead", IS_OVERHEAD
    # as traces before PyTorch 1.11 wrote them
    OLD_KERNEL = "Kernel", IS_KERNEL
    OLD_MEMCPY = "Memcpy", IS_COPY
    OLD_MEMSET = "Memset", IS_MEMSET
    OLD_RUNTIME = "Runtime", IS_CALL
    OLD_OPERATOR = "Operator", IS_OP
    # many in a trace, and no figure needs them
    PYTHON_FUNCTION = "python_function", LEFT_OUT
    GPU_USER_ANNOTATION = "gpu_user_annotation", LEFT_OUT
    CUDA_SYNC = "cuda_sync", LEFT_OUT
    AC2G = "ac2g", LEFT_OUT
    FWDBWD = "fwdbwd", LEFT_OUT
    TRACE = "Trace", LEFT_OUT

    def __new__(cls, text: str, code: int) -> Category:
        """A member whose value is the text."""
        made = object.__new__(cls)
        made._value_ = text
        made.code = code
        return made

    @classmethod
    def _missing_(cls, value: object) -> Category:
        return category_of(str(value))


_BY_TEXT = {category.value: category for category in Category}


def category_of(text: str) -> Category:
    """The category of any text, however its letters are written."""
    return _BY_TEXT.get(text.lower(), Category.UNKNOWN)
