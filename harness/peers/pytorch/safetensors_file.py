"""Reading and writing safetensors files with only the standard library.

A file is the header's size (8 bytes, little-endian), the header (JSON), the data. Tensors are
(dtype, shape, bytes) here, dtype as the format names it: "F32", "BF16", "I32".
"""
import json
import struct


def read(path):
    """{name: (dtype, shape, bytes)}, names in the order of their data."""
    with open(path, "rb") as file:
        header_bytes, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
        data = file.read()
    header.pop("__metadata__", None)
    rows = sorted(header.items(), key=lambda row: row[1]["data_offsets"][0])
    return {name: (row["dtype"], row["shape"], data[slice(*row["data_offsets"])])
            for name, row in rows}


def write(path, tensors):
    header, at = {}, 0
    # Larger elements first, so that each tensor begins at a multiple of its element's size.
    order = sorted(tensors, key=lambda name: -{"F32": 4, "I32": 4, "BF16": 2}[tensors[name][0]])
    for name in order:
        dtype, shape, data = tensors[name]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            file.write(tensors[name][2])
