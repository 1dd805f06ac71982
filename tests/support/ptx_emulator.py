#!/usr/bin/env python3
"""Runs the PTX that the compiler generates without a GPU and compares its numbers.

usage: ptx_emulator.py WRITE_PTX [tilings]

WRITE_PTX (framework/compiler/lab/ptx.c) writes the kernels, with `tilings` fewer of them, each by
every feasible tiling; this program runs every block thread by
thread in lockstep and checks results against plain loops, and on the way alignment and bounds of
each access, uninitialised registers, barriers that not all threads reach, shuffles from lanes that
do not take part, and on sm_90 accesses to global memory before griddepcontrol.wait. It knows the instructions that the emitter's kernels use; another one is an
error. Exit 0 all right, 1 wrong numbers or a fault, 77 no compiler or no libdevice of CUDA.
"""
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

SHARED_BASE = 1 << 40


def bits_of(x):
    try:
        return struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return 0x7F800000 if x > 0 else 0xFF800000


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]


def f32(x):
    return float_of(bits_of(x))


def bf16_of(x):
    bits = bits_of(x)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def of_bf16(half):
    return float_of((half & 0xFFFF) << 16)


def tf32_of(x):
    """Rounded to nearest, ties away from zero, as bits."""
    return (bits_of(x) + 0x1000) & 0xFFFFE000


def divide(a, b):
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


FLOAT_OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "fma": lambda a, b, c: a * b + c,
    "max": lambda a, b: b if a != a else a if b != b else max(a, b),
    "neg": lambda a: -a,
    "abs": abs,
    "ex2": lambda a: 2.0 ** max(-150.0, min(a, 128.0)),
    "rcp": lambda a: divide(1.0, a),
    "sqrt": math.sqrt,
}
INT_OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "bfe": lambda a, start, length: a >> start & ((1 << length) - 1),
}
COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "neu": lambda a, b: a != b,
    "nan": lambda a, b: a != a or b != b,
}


class Fault(Exception):
    pass


def parse(text, name="kernel"):
    """A kernel's instructions [(guard, opcode parts, operands)], labels, shared arrays, and whether
    its target launches kernels early, so that they must wait."""
    text = re.sub(r"//[^\n]*", "", text)
    early = int(re.search(r"\.target\s+sm_(\d+)", text)[1]) >= 90
    shared, top = {}, SHARED_BASE
    for array, size in re.findall(r"\.shared\s+\.align\s+\d+\s+\.b8\s+(\w+)\[(\d+)\]", text):
        shared[array] = top
        top += (int(size) + 255) // 256 * 256
    program, labels = [], {}
    entry = re.search(r"\.entry\s+%s\(.*?(?=\.visible|\Z)" % name, text, re.S)[0]
    body = entry[entry.index("{") + 1 : entry.rindex("}")]
    body = re.sub(r"mma\.[^;]*", lambda found: " ".join(found[0].split()), body)
    for line in re.split(r"[;\n]", body):
        line = line.strip()
        label = re.match(r"^(\$?\w+):$", line)
        if label:
            labels[label[1]] = len(program)
        elif line and not line.startswith("."):
            parts = re.match(r"^(?:@(!?)(%p\d+)\s+)?([\w.:]+)\s*(.*)$", line)
            operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", parts[4])
            operands = [
                [x.strip() for x in o[1:-1].split(",")] if o[0] == "{" else o for o in operands
            ]
            guard = (parts[2], parts[1] == "!") if parts[2] else None
            program.append((guard, parts[3].split("."), operands))
    return program, labels, shared, early


class Memory:
    """Buffers far from each other: an access past an end finds nothing."""

    def __init__(self):
        self.buffers, self.top = [], 1 << 20

    def add(self, contents):
        at = self.top
        self.buffers.append((at, bytearray(contents)))
        self.top = (at + len(contents) + 8192) // 256 * 256
        return at

    def find(self, at, size):
        for base, data in self.buffers:
            if base <= at and at + size <= base + len(data):
                return data, at - base
        raise Fault("an access of %d bytes lies outside of every operand" % size)


class Block:
    def __init__(self, kernel, parameters, number, threads, memory):
        self.program, self.labels, self.shared, early = kernel
        self.parameters, self.number, self.threads = parameters, number, threads
        self.memory = memory
        self.shared_memory = bytearray(48 << 10)
        self.registers = [{} for _ in range(threads)]
        self.at = [0] * threads
        self.live = set(range(threads))
        self.may_access = set() if early else set(range(threads))

    def value(self, t, name):
        if name[0] == "%":
            special = {"%ctaid.x": self.number, "%tid.x": t, "%ntid.x": self.threads}
            if name in special:
                return special[name]
            if name not in self.registers[t]:
                raise Fault("register %s is read before it is written" % name)
            return self.registers[t][name]
        if name[:2] in ("0f", "0d"):
            return int(name[2:], 16)
        if name in self.shared:
            return self.shared[name]
        return int(name, 0)

    def number_of(self, t, name):
        return float_of(self.value(t, name))

    def access(self, t, operand, space, size):
        base, offset = re.match(r"\[([^+\]]+)(?:\+(-?\d+))?\]", operand).groups()
        at = self.value(t, base) + int(offset or 0)
        if at % size:
            raise Fault("an access of %d bytes is misaligned" % size)
        if space == "shared":
            return self.shared_memory, at - SHARED_BASE
        if t not in self.may_access:
            raise Fault("an access to global memory before griddepcontrol.wait")
        return self.memory.find(at, size)

    def run(self):
        while self.live:
            place = min(self.at[t] for t in self.live)
            here = [t for t in sorted(self.live) if self.at[t] == place]
            guard, op, operands = self.program[place]
            active = [
                t for t in here if guard is None or bool(self.value(t, guard[0])) != guard[1]
            ]
            for t in here:
                self.at[t] = place + 1
            self.step(op, operands, active)

    def step(self, op, operands, active):
        if op[0] == "ret":
            self.live -= set(active)
        elif op[0] == "bra":
            for t in active:
                self.at[t] = self.labels[operands[-1]]
        elif op[0] in ("bar", "barrier"):
            if len(active) != len(self.live):
                raise Fault("a barrier that %d of %d threads reach" % (len(active), len(self.live)))
        elif op == ["griddepcontrol", "wait"]:
            self.may_access.update(active)
        elif op[0] == "shfl":
            self.shuffle(operands, active)
        elif op[0] == "mma":
            self.multiply(op, operands, active)
        else:
            for t in active:
                self.one(t, op, operands)

    def shuffle(self, operands, active):
        target = operands[0].split("|")
        made = {}
        for t in active:
            other = (t & ~31) | ((t & 31) ^ self.value(t, operands[2]))
            if other not in active:
                raise Fault("a shuffle reads lane %d, which does not take part" % (other & 31))
            made[t] = self.value(other, operands[1])
        for t, value in made.items():
            self.registers[t][target[0]] = value
            if len(target) > 1:
                self.registers[t][target[1]] = True

    def multiply(self, op, operands, active):
        """mma.sync of words: of a row of A or a column of B, 8, two bf16 or one tf32 each."""

        def parts(word):
            return [of_bf16(word), of_bf16(word >> 16)] if "bf16" in op else [float_of(word)]

        sums, left, right, given = operands
        if len(active) % 32 or any((t | 31) not in active for t in active):
            raise Fault("a product of a part of a warp")
        for warp in range(active[0], active[-1] + 1, 32):
            a, b = [[0] * 8 for _ in range(16)], [[0] * 8 for _ in range(8)]
            for t in range(32):
                for i in range(4):
                    word = self.value(warp + t, left[i])
                    a[t // 4 + i % 2 * 8][t % 4 + i // 2 * 4] = parts(word)
                for i in range(2):
                    b[t // 4][t % 4 + i * 4] = parts(self.value(warp + t, right[i]))
            for t in range(32):
                for i in range(4):
                    row, col = a[t // 4 + i // 2 * 8], b[t % 4 * 2 + i % 2]
                    terms = [x * y for u, v in zip(row, col) for x, y in zip(u, v)]
                    total = self.number_of(warp + t, given[i]) + math.fsum(terms)
                    self.registers[warp + t][sums[i]] = bits_of(total)

    def one(self, t, op, o):
        kind, last, r = op[0], op[-1], self.registers[t]
        if kind == "ld" and op[1] == "param":
            r[o[0]] = self.parameters[int(re.search(r"param_(\d+)", o[1])[1])]
        elif kind in ("ld", "st"):
            self.move(t, op, o)
        elif kind == "mov":
            self.copy(t, o)
        elif kind == "cvt":
            r[o[0]] = self.convert(t, op, o[1])
        elif kind == "setp":
            get = self.number_of if last == "f32" else self.value
            r[o[0]] = COMPARE[op[1]](get(t, o[1]), get(t, o[2]))
        elif kind == "selp":
            r[o[0]] = self.value(t, o[1] if self.value(t, o[3]) else o[2])
        elif last == "pred":
            r[o[0]] = bool(INT_OPS[kind](*[int(self.value(t, x)) for x in o[1:]]))
        elif last == "f32":
            result = FLOAT_OPS[kind](*[self.number_of(t, x) for x in o[1:]])
            bits = bits_of(result)
            flushes = "ftz" in op and not bits & 0x7F800000
            r[o[0]] = bits & 0x80000000 if flushes else bits
        else:
            width = 64 if "64" in last or "wide" in op else 16 if "16" in last else 32
            mask = (1 << width) - 1
            values = [self.value(t, x) & mask for x in o[1:]]
            r[o[0]] = INT_OPS[kind](*values) >> (width if "hi" in op else 0) & mask

    def move(self, t, op, o):
        size = int(re.sub(r"\D", "", op[-1])) // 8
        lanes = int(op[-2][1:]) if op[-2] in ("v2", "v4") else 1
        loads = op[0] == "ld"
        data, at = self.access(t, o[1] if loads else o[0], op[1], size * lanes)
        names = o[0 if loads else 1]
        for i, name in enumerate(names if lanes > 1 else [names]):
            part = slice(at + i * size, at + (i + 1) * size)
            if loads:
                self.registers[t][name] = int.from_bytes(data[part], "little")
            else:
                value = self.value(t, name) & ((1 << 8 * size) - 1)
                data[part] = value.to_bytes(size, "little")

    def copy(self, t, o):
        r = self.registers[t]
        if isinstance(o[0], list):
            value = self.value(t, o[1])
            r[o[0][0]], r[o[0][1]] = value & 0xFFFF, value >> 16 & 0xFFFF
        elif isinstance(o[1], list):
            r[o[0]] = self.value(t, o[1][0]) & 0xFFFF | (self.value(t, o[1][1]) & 0xFFFF) << 16
        else:
            r[o[0]] = self.value(t, o[1])

    def convert(self, t, op, name):
        to, source = [x for x in op[1:] if x not in ("rn", "rna", "sat")]
        if (to, source) == ("f32", "bf16"):
            return (self.value(t, name) & 0xFFFF) << 16
        if (to, source) == ("bf16", "f32"):
            return bf16_of(self.number_of(t, name))
        if (to, source) == ("tf32", "f32"):
            return tf32_of(self.number_of(t, name))
        value = self.value(t, name)
        width = int(source[1:])
        value &= (1 << width) - 1
        if source[0] == "s" and value >> (width - 1):
            value -= 1 << width
        if to == "f32":
            return bits_of(float(value))
        return value & ((1 << int(to[1:])) - 1)


# ---- the cases -----------------------------------------------------------------------------------


def sample(count, seed):
    return [((i + 13 * seed) * 2654435761 % 20011) / 20011 * 6 - 3 for i in range(count)]


class Case:
    def __init__(self, line):
        name, kind, dtype, rows, cols, blocks, threads, finish, parts, *rest = line.split()
        *product, self.same = rest
        self.batch, self.k, self.trans_a, self.trans_b, self.pad = [int(x) for x in product]
        self.name, self.kind, self.half = name, kind, dtype == "bf16"
        self.rows, self.cols = int(rows), int(cols)
        self.blocks, self.threads = int(blocks), int(threads)
        self.finish_blocks, self.parts_bytes = int(finish), int(parts)
        self.memory, self.made = Memory(), None

    def put(self, values, half):
        if half:
            return self.memory.add(b"".join(struct.pack("<H", bf16_of(x)) for x in values))
        return self.memory.add(struct.pack("<%df" % len(values), *values))

    def get(self, at, half):
        data = next(d for base, d in self.memory.buffers if base == at)
        if half:
            return [of_bf16(x) for (x,) in struct.iter_unpack("<H", data)]
        return [x for (x,) in struct.iter_unpack("<f", data)]

    def rounded(self, values):
        return [of_bf16(bf16_of(x)) if self.half else f32(x) for x in values]

    def operands(self):
        """Parameters, and (place, half, expected[, scale of its error]) of each result."""
        count = self.rows * self.cols
        x = self.rounded(sample(count, 0))
        y = [7.0] * count
        a = self.put(x, self.half)
        rows = [x[r * self.cols : (r + 1) * self.cols] for r in range(self.rows)]
        return getattr(self, self.kind)(a, x, rows, y)

    def unary(self, a, x, y, value, slope):
        made = [self.put(y, self.half), self.put(y, self.half)]
        return [a] + made, [
            (made[0], self.half, [value(v) for v in x]),
            (made[1], self.half, [slope(v) for v in x]),
        ]

    def gelu(self, a, x, rows, y):
        def inner(v):
            return 0.7978845608028654 * (v + 0.044715 * v**3)

        def slope(v):
            t = math.tanh(inner(v))
            rise = 0.7978845608028654 * (1 + 3 * 0.044715 * v * v)
            return 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * rise

        return self.unary(a, x, y, lambda v: 0.5 * v * (1 + math.tanh(inner(v))), slope)

    def silu(self, a, x, rows, y):
        def s(v):
            return 1 / (1 + math.exp(-v))

        return self.unary(a, x, y, lambda v: v * s(v), lambda v: s(v) + v * s(v) * (1 - s(v)))

    def softmax(self, a, x, rows, y):
        expected = []
        for row in rows:
            made = [math.exp(v - max(row)) for v in row]
            expected += [v / sum(made) for v in made]
        out = self.put(y, self.half)
        return [a, out], [(out, self.half, expected)]

    def layernorm(self, a, x, rows, y):
        gamma, beta = self.rounded(sample(self.cols, 1)), self.rounded(sample(self.cols, 2))
        expected, means, inverses = [], [], []
        for row in rows:
            mean = sum(row) / self.cols
            inverse = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / self.cols + 1e-5)
            expected += [(v - mean) * inverse * g + b for v, g, b in zip(row, gamma, beta)]
            means.append(mean)
            inverses.append(inverse)
        out = self.put(y, self.half)
        stats = [self.put([7.0] * self.rows, False) for _ in range(2)]
        given = [self.put(gamma, self.half), self.put(beta, self.half)]
        return [a] + given + [out] + stats, [
            (out, self.half, expected),
            (stats[0], False, means, 3.0),  # of what is added up
            (stats[1], False, inverses),
        ]

    def rmsnorm(self, a, x, rows, y):
        residual = self.rounded(sample(len(x), 3))
        gamma = self.rounded(sample(self.cols, 1))
        sums, expected = [], []
        for r, row in enumerate(rows):
            s = [v + w for v, w in zip(row, residual[r * self.cols :])]
            scale = 1 / math.sqrt(sum(v * v for v in s) / self.cols + 1e-5)
            expected += [v * scale * g for v, g in zip(s, gamma)]
            sums += s
        out = [self.put(y, self.half), self.put(y, self.half)]
        given = [self.put(residual, self.half), self.put(gamma, self.half)]
        return [a] + given + out, [(out[0], self.half, sums), (out[1], self.half, expected)]

    def cross_entropy(self, a, x, rows, y):
        targets = [7919 * r % self.cols for r in range(self.rows)]
        ids = self.memory.add(struct.pack("<%di" % self.rows, *targets))
        expected = [
            math.log(sum(math.exp(v) for v in row)) - row[t] for row, t in zip(rows, targets)
        ]
        out = self.put([7.0] * self.rows, False)
        return [a, ids, out], [(out, False, expected)]

    def quotient(self, a, x, rows, y):
        """Divisors whose inverse is infinite, subnormal or neither."""
        sizes = [(2.0**-130, 1), (-(2.0**-149), 8), (2.0**127, 0.125), (3.0, 1)]
        divisors = [sizes[r % len(sizes)][0] for r in range(self.rows)]
        factors = [d * sizes[r % len(sizes)][1] for r, d in enumerate(divisors)]
        given = [f32(v * factor) for row, factor in zip(rows, factors) for v in row]
        expected = [v / divisors[i // self.cols] for i, v in enumerate(given)]
        out = self.put(y, self.half)
        return [self.put(given, self.half), self.put(divisors, False), out], [
            (out, self.half, expected)
        ]

    def column(self, a, x, rows, y):
        weight = self.rounded([1 + 0.01 * (c % 17) for c in range(self.cols)])
        expected = [[v * w for v, w in zip(row, weight)] for row in rows]
        totals = [0.5 + sum(column) for column in zip(*expected)]
        out, y = self.put([0.5] * self.cols, False), self.put(y, self.half)
        return [a, self.put(weight, self.half), y, out], [
            (y, self.half, [v for row in expected for v in row]),
            (out, False, totals, self.rows),
        ]

    def column_of_rows(self, a, x, rows, y):
        """The sum of a value per row is the same for each column."""
        given = sample(self.rows, 1)
        out = self.put([7.0] * self.cols, False)
        expected = [-math.fsum(f32(v) for v in given)] * self.cols
        return [self.put(given, False), out], [(out, False, expected, self.rows)]

    def matrix(self, rows, cols, seed):
        """[batch, rows, cols] with gaps as memory, and as a function of the indices."""
        ld, stride = cols + self.pad, rows * (cols + self.pad) + self.pad
        flat = self.rounded(sample(self.batch * stride, seed))
        at = self.put(flat, self.half)
        exact = flat if self.half else [float_of(tf32_of(x)) for x in flat]
        return at, lambda entry, row, col: exact[entry * stride + row * ld + col]

    def product(self, a, x, rows, y):
        n, k, m = self.cols, self.k, self.rows // self.batch
        left, get_a = self.matrix(*((k, m) if self.trans_a else (m, k)), 4)
        right, get_b = self.matrix(*((n, k) if self.trans_b else (k, n)), 5)
        bias, c = self.rounded(sample(n, 6)), [f32(v) for v in sample(len(y), 7)]
        expected = []
        for r in range(self.rows):
            entry, row = divmod(r, m)
            for col in range(n):
                terms = [
                    get_a(entry, *((i, row) if self.trans_a else (row, i)))
                    * get_b(entry, *((col, i) if self.trans_b else (i, col)))
                    for i in range(k)
                ]
                expected.append(max(0.0, math.fsum(terms) + bias[col]) + c[r * n + col])
        given, out = [self.put(bias, self.half), self.put(c, False)], self.put(y, self.half)
        return [left, right] + given + [out], [(out, self.half, expected)]

    def text(self, folder):
        with open(os.path.join(folder, self.name + ".ptx"), encoding="ascii") as file:
            return file.read()

    def error(self, text):
        """The largest error in units of the bound."""
        parameters, results = self.operands()
        parameters = parameters + [self.rows, self.memory.add(bytes(self.parts_bytes))]
        for name, blocks in (("kernel", self.blocks), ("finish", self.finish_blocks)):
            for number in range(blocks):
                Block(parse(text, name), parameters, number, self.threads, self.memory).run()
        self.made = [next(d for base, d in self.memory.buffers if base == x[0]) for x in results]
        worst = 0.0
        for place, half, expected, *scales in results:
            scale = scales[0] if scales else max(abs(want) for want in expected)
            for got, want in zip(self.get(place, half), expected):
                error = abs(got - want) / scale / (2**-8 if half else 2**-20)
                worst = worst if error <= worst or worst != worst else error  # NaN stays
        return worst

    def run(self, folder, earlier):
        """earlier: cases that have run, by name."""
        worst = self.error(self.text(folder))
        same = self.same == "-" or self.made == earlier[self.same].made
        word = "ok" if worst <= 1 and same else "WRONG" if same else "OTHER BITS"
        print("%-30s %s, error %.2g of the bound" % (self.name, word, worst))
        return word == "ok"


def finds_damage(line, folder):
    """Spoiled kernels must be found out: the checks that this program makes do fail."""
    spoiled = [
        (r"0f3FB8AA3B", "0f3FB80000", "numbers"),
        (r"(ld\.global\.v4\.\w+ .*)\]", r"\1+4]", "misaligned"),
        (r"griddepcontrol\.wait;", "", "before griddepcontrol.wait"),
        (r"\.v4(\.f32 .*\[%rd\d+)\+\d+\]", r".v4\1+1048576]", "outside"),
        (r"(ex2\.approx\.ftz\.f32 \s*%f\d+), %f\d+", r"\1, %f9999", "before it is written"),
    ]
    good = True
    for old, new, words in spoiled:
        case = Case(line)
        text, count = re.subn(old, new, case.text(folder), count=1)
        try:
            found = count == 1 and not case.error(text) <= 1 and words == "numbers"
        except Fault as fault:
            found = words in str(fault)
        if not found:
            print("not found out: %s" % words)
        good = good and found
    return good


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["tilings"]):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        writer = subprocess.run([sys.argv[1], folder, "90", "3"] + sys.argv[2:], check=False,
                                stderr=subprocess.PIPE, text=True)
        sys.stderr.write(writer.stderr)
        if writer.returncode:
            return 77 if "libdevice is needed" in writer.stderr else writer.returncode
        with open(os.path.join(folder, "cases"), encoding="ascii") as file:
            lines = file.read().splitlines()
        good = True
        if not sys.argv[2:]:
            good = finds_damage(next(x for x in lines if x.startswith("softmax_f32_1024")), folder)
        run = {}
        for case in [Case(line) for line in lines]:
            run[case.name] = case
            try:
                good = case.run(folder, run) and good
            except Fault as fault:
                print("%-30s FAULT: %s" % (case.name, fault))
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
