#!/usr/bin/env python3
"""Writes safetensors/*.safetensors: files as the Python package `safetensors` lays them out.

An implementation of the format of its own, from its specification: nothing of framework/ is in it.
Layout of the package's writer: tensors by falling element size, then by name; compact JSON; the
header padded with spaces so that the data begins at a multiple of 8. Element j of the tensor that
is i-th in the file is (j * 37 + i * 11) % 101 - 50, or its remainder of division by 2 for bool,
plus 50 for unsigned types; the floats are half of it.
"""
import json
import pathlib
import struct

SIZE = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "F16": 2, "U16": 2, "U8": 1, "BOOL": 1}
CODE = {"F64": "d", "I64": "q", "F32": "f", "I32": "i", "F16": "e", "U16": "H", "U8": "B"}


def element(dtype, number):
    if dtype == "BOOL":
        return struct.pack("<B", number % 2)
    if dtype == "BF16":  # exact: halves below 51 have 7 significant bits
        return struct.pack("<f", number / 2)[2:]
    if dtype[0] == "F":
        return struct.pack("<" + CODE[dtype], number / 2)
    return struct.pack("<" + CODE[dtype], number + (50 if dtype[0] == "U" else 0))


def count(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def file_bytes(tensors, metadata):
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    order = sorted(tensors, key=lambda t: (-SIZE[t[1]], t[0]))
    for i, (name, dtype, shape) in enumerate(order):
        begin = len(data)
        data += b"".join(element(dtype, (j * 37 + i * 11) % 101 - 50) for j in range(count(shape)))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


FILES = {
    "mixed": ([("w", "F32", [3, 5]), ("wide", "F64", [2]), ("bias", "BF16", [7]), ("half", "F16", [1, 3]),
               ("ids", "I32", [4]), ("long", "I64", [1]), ("short", "U16", [3]), ("bytes", "U8", [5]),
               ("mask", "BOOL", [2, 2]), ("scalar", "F32", []), ("none", "F32", [0, 3])],
              {"format": "pt"}),
    "plain": ([("a", "F32", [2]), ("é", "F32", [1])], None),
    "empty": ([], None),
}

if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "safetensors"
    folder.mkdir(exist_ok=True)
    for file, (tensors, metadata) in FILES.items():
        (folder / f"{file}.safetensors").write_bytes(file_bytes(tensors, metadata))
