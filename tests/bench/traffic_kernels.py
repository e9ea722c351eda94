"""Both builds of the generator's kernel, for tests that compare them."""

import importlib.util
from types import ModuleType

from bench.traffic import _frames_py
from bench.traffic.kernel_build import compile_kernel, compiled_file


def load_kernels() -> list[ModuleType]:
    """Return the interpreted kernel and the compiled one, which is compiled if it has to be."""
    compile_kernel()
    spec = importlib.util.spec_from_file_location("bench.traffic._frames_c", compiled_file())
    assert spec is not None
    assert spec.loader is not None
    compiled = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compiled)
    return [_frames_py, compiled]
