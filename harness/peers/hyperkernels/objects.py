"""Kernels out of object files that nvcc made, called through the CUDA driver.

An object file holds its device code as one fatbin in the section .nv_fatbin; the driver loads that
and finds a kernel by its C++ name. The context and the stream are PyTorch's.
"""
import ctypes
import os
import struct

from protocol import Cannot

SHARED_BYTES_MAX = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


def fatbin_of(path):
    """The bytes of section .nv_fatbin of a 64-bit little-endian ELF file."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise Cannot("unavailable", f"{path}: not a 64-bit object file")
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names = sections[names_index][4]
    for name, _, _, _, offset, length in sections:
        start = names + name
        if data[start:data.index(b"\0", start)] == b".nv_fatbin":
            return data[offset:offset + length]
    raise Cannot("unavailable", f"{path}: contains no device code")


class Kernels:
    """Kernels of a folder of object files: name -> function of the driver."""

    def __init__(self, torch, folder):
        self.torch, self.folder, self.modules = torch, folder, {}
        self.driver = ctypes.CDLL("libcuda.so.1")
        torch.empty(1, device="cuda")  # makes the context that modules are loaded into

    def check(self, code, what):
        if code != 0:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: {(text.value or b'unknown error').decode()}")

    def find(self, file, name, shared_bytes=0):
        """The kernel `name` (as the compiler mangles it) of FILE.o."""
        path = os.path.join(self.folder, file + ".o")
        if not os.path.exists(path):
            raise Cannot("unavailable", f"{path} is missing: build the kernel objects for this "
                         "GPU's architecture (README of HyperKernels)")
        if file not in self.modules:
            module = ctypes.c_void_p()
            image = ctypes.create_string_buffer(fatbin_of(path))
            self.check(self.driver.cuModuleLoadData(ctypes.byref(module), image),
                       f"{path}: cannot be loaded on this GPU")
            self.modules[file] = module
        function = ctypes.c_void_p()
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), self.modules[file],
                                                   name.encode()), f"{path}: no kernel {name}")
        if shared_bytes > 48 << 10:
            self.check(self.driver.cuFuncSetAttribute(function, SHARED_BYTES_MAX, shared_bytes),
                       f"{name}: {shared_bytes} bytes of shared memory")
        return function

    def launch(self, function, grid, block, values, shared_bytes=0):
        """One launch on the current stream; tensors are passed as pointers."""
        held = [ctypes.c_void_p(v.data_ptr()) if hasattr(v, "data_ptr") else v for v in values]
        pointers = (ctypes.c_void_p * len(held))(
            *(ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in held))
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        self.check(self.driver.cuLaunchKernel(
            function, *(list(grid) + [1] * (3 - len(grid))), *(list(block) + [1] * (3 - len(block))),
            shared_bytes, stream, pointers, None), "launch")
