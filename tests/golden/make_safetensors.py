#!/usr/bin/env python3
"""Writes safetensors/*.safetensors: files as the Python package `safetensors` lays them out.

An implementation of the format of its own, from its specification: nothing of framework/ is in it.
Layout of the package's writer: tensors by falling element size, then by name; compact JSON; the
header padded with spaces so that the data begins at a multiple of 8. Element j of the tensor that
is i-th in the file is (j * 37 + i * 11) % 101 - 50, or its remainder of division by 2 for bool,
plus 50 for unsigned types; the floats are half of it.

gpt2_small.safetensors holds the parameters of gpt2_small.json (PyTorch's, see make_gpt2.py) as
transformers saves a GPT2LMHeadModel: its names, weights of linear layers as [in, out], masks, and
the head, which is tied to the token embedding.
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



def gpt2_tensors(golden):
    """Name, type, shape and bytes of each tensor, from our names and layout."""
    width, layers, context = golden["width"], golden["layers"], golden["context"]
    tensors = []
    for name, values in golden["before"].items():
        layer = ".attn.c_" in name or ".mlp.c_" in name
        shape = [len(values)]
        if name.endswith("weight") and not (".ln_" in name or name.startswith("ln_f")):
            columns = 4 * width if ".mlp.c_proj" in name else width
            shape = [len(values) // columns, columns]
            if layer:
                values = [values[r * columns + c] for c in range(columns) for r in range(shape[0])]
                shape = shape[::-1]
        tensors.append(("transformer." + name, "F32", shape, struct.pack(f"<{len(values)}f", *values)))
    mask = bytes(c <= r for r in range(context) for c in range(context))
    for i in range(layers):
        tensors.append((f"transformer.h.{i}.attn.bias", "BOOL", [1, 1, context, context], mask))
        tensors.append((f"transformer.h.{i}.attn.masked_bias", "F32", [], struct.pack("<f", -1e4)))
    wte = next(t for t in tensors if t[0].endswith("wte.weight"))
    return tensors + [("lm_head.weight", *wte[1:])]


def gpt2_bytes(golden):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, content in sorted(gpt2_tensors(golden), key=lambda t: (-SIZE[t[1]], t[0])):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


if __name__ == "__main__":
    folder = pathlib.Path(__file__).parent / "safetensors"
    folder.mkdir(exist_ok=True)
    for file, (tensors, metadata) in FILES.items():
        (folder / f"{file}.safetensors").write_bytes(file_bytes(tensors, metadata))
    small = json.loads((pathlib.Path(__file__).parent / "gpt2_small.json").read_text())
    (folder / "gpt2_small.safetensors").write_bytes(gpt2_bytes(small))
