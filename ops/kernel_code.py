"""Reads what NVIDIA's tools print of a compiled program: nvdisasm's listing, ptxas' log, PTX.

Everything here is text in, figures out, so that it is tested without the tools. A kernel's code is
read in the order of its addresses: prologue, then the body of a loop again and again. Instructions
are of sm_70 and later; parameters lie where sm_90 has them."""

import collections
import re

PARAMETERS_AT = 0x210  # of sm_90 in constant bank 0
KERNEL = re.compile(r"\s*\.text\.(\S+):")
LABEL = re.compile(r"\s*(\.L_\S+):")
INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?(\S+)\s*(.*?)\s*;")
TARGET = re.compile(r"`\((\.L_\S+?)\)")
REGISTER = re.compile(r"\b(U?R)(\d+)\b(\.64)?")
CONSTANT = re.compile(r"c\[0x0\]\[0x([0-9a-f]+)\]")
# Multiplications and additions of one instruction of a warp, and the registers of its A and B.
MATRIX = {"IMMA.16816": (2048, 2, 1), "IMMA.16832": (4096, 4, 2), "IMMA.8816": (1024, 1, 1),
          "HMMA.16816": (2048, 4, 2), "HMMA.1688": (1024, 2, 1), "IDP": (128, 1, 1)}
NO_RESULT = ("ST", "BRA", "BAR", "EXIT", "RED", "BSYNC", "BSSY", "DEPBAR", "LDGDEPBAR", "LDGSTS",
             "CALL", "RET", "CCTL", "MEMBAR", "WARPSYNC", "NOP", "BRX", "UBLKCP", "SYNCS", "ERRBAR")

Instruction = collections.namedtuple("Instruction", "predicate op operands target")
Pointer = collections.namedtuple("Pointer", "offset align")  # in bytes; align of what it points to
Loop = collections.namedtuple("Loop", "start end")           # numbers of instructions, both in it
Load = collections.namedtuple("Load", "bytes of registers")  # of: offsets of its pointer parameters
# Bytes in flight before it; instructions since the newest load that it waits for.
Wait = collections.namedtuple("Wait", "at op bytes cover")
# Bytes a round trip to memory, which are in flight on average; round trips a pass; a pass's waits.
Flight = collections.namedtuple("Flight", "bytes trips waits")
PASSES = 8  # of a loop, before it runs steadily, and over which it is measured


def kernels_of(listing):
    """{kernel: [Instruction]} of nvdisasm's listing; a target is an instruction's number."""
    found, labels, code = {}, {}, []
    for line in listing.splitlines():
        if match := KERNEL.match(line):
            code, labels = [], {}
            found[match[1]] = (code, labels)
        elif match := LABEL.match(line):
            labels[match[1]] = len(code)
        elif match := INSTRUCTION.match(line):
            code.append(Instruction(match[1], match[2], match[3], None))
    return {name: [aimed(one, labels) for one in code] for name, (code, labels) in found.items()}


def aimed(one, labels):
    match = TARGET.search(one.operands) if one.op.startswith("BRA") else None
    return one._replace(target=labels.get(match[1])) if match else one


def loops_of(code):
    """[Loop]: from the target of each branch backwards to the branch; not of one to itself."""
    last = {}
    for at, one in enumerate(code):
        if one.target is not None and one.target < at:
            last[one.target] = at
    return [Loop(start, end) for start, end in sorted(last.items())]


def is_inside(inner, outer):
    return inner != outer and outer.start <= inner.start and inner.end <= outer.end


def is_innermost(loop, loops):
    return not any(is_inside(other, loop) for other in loops)


def kind_of(op):
    """The part of an operation's name that a mix counts: LDG with its width, others without."""
    parts = op.split(".")
    if parts[0] in ("LDG", "LDS", "LDGSTS", "STS", "STG"):
        return ".".join([parts[0]] + [part for part in parts[1:] if part in SIZES])
    return parts[0]


SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def bytes_of(op):
    return next((SIZES[part] for part in op.split(".")[1:] if part in SIZES), 4)


def mix_of(code):
    return dict(collections.Counter(kind_of(one.op) for one in code).most_common())


def macs_of(code):
    """(multiplications and additions of a warp, are they of bytes) by dots and matrix units."""
    total, of_bytes = 0, False
    for one in code:
        if shape := re.match(r"([HI])GMMA\.64x(\d+)x(\d+)", one.op):  # of four warps
            total += 16 * int(shape[2]) * int(shape[3])
            of_bytes = of_bytes or shape[1] == "I"
        for name, (macs, _, _) in MATRIX.items():
            if (one.op + ".").startswith(name + "."):
                total += macs
                of_bytes = of_bytes or not name.startswith("HMMA")
    return total, of_bytes


def numbered(text, width=1):
    """The registers that an operand names, `width` from each on: {"R12", "UR4"}."""
    out = set()
    for match in REGISTER.finditer(text):
        count = max(width, 2 if match[3] else 1)
        out |= {match[1] + str(int(match[2]) + i) for i in range(count)}
    return out


def split(operands):
    return [part.strip() for part in operands.split(",")] if operands else []


def result_of(one):
    """(registers that are written, operands that are read)."""
    operands = split(one.operands)
    name = one.op.split(".")[0]
    if not operands or name.startswith(NO_RESULT):
        return set(), operands
    width = 1
    if name in ("LDG", "LDS", "LDC", "ULDC", "LDL"):
        width = max(1, bytes_of(one.op) // 4)
    elif ".WIDE" in one.op or name == "CS2R":
        width = 2
    elif name in ("IMMA", "HMMA"):
        width = 4
    return numbered(operands[0], width) if re.match(r"U?R\d", operands[0]) else set(), operands[1:]


def reads_of(one, sources):
    """The registers that are read."""
    out = set()
    shape = next((value for name, value in MATRIX.items() if one.op.startswith(name + ".")), None)
    for at, text in enumerate(sources):
        width = 1
        if shape and not one.op.startswith("IDP"):
            width = (shape[1], shape[2], 4)[min(at, 2)]
        elif one.op.startswith("ST") and at == len(sources) - 1:
            width = max(1, bytes_of(one.op) // 4)
        elif ".WIDE" in one.op and at == 2:
            width = 2
        out |= numbered(text, width)
    return out


def loads_of(code, pointers):
    """{number of an instruction: Load} of the reads of global memory; pointers: [Pointer]."""
    leads = collections.defaultdict(frozenset)  # register: offsets of the pointers it comes from
    found = {}
    for at, one in enumerate(code):
        written, sources = result_of(one)
        of = frozenset().union(*(leads[name] for name in reads_of(one, sources)))
        size = max(bytes_of(one.op), 4)
        for match in CONSTANT.finditer(one.operands):
            offset = int(match[1], 16) - PARAMETERS_AT
            of |= {p.offset for p in pointers if p.offset < offset + size and offset < p.offset + 8}
        if one.op.startswith(("LDG.", "LDGSTS.")):
            found[at] = Load(bytes_of(one.op), of, written)
            of = frozenset()
        for name in written:
            leads[name] = of | leads[name] if one.predicate else of
    return found


class Walk:
    """What is in flight while instructions are issued in their order.

    The unit of time is a round trip to memory, and nothing else takes time: a load that counts
    arrives one after its issue, others (rows, from caches) at once. An instruction that reads or
    writes a register of a load waits for it, a move too. Copies to local memory (cp.async) are
    awaited by their groups."""

    def __init__(self, loads, counts):
        self.loads = {at: load for at, load in loads.items() if counts(load)}
        self.flying = []  # (Load, its group or None, time of arrival, issued) in the order of issue
        self.group = 1    # copies are of this one until it is closed
        self.time = 0
        self.issued = 0   # instructions
        self.loaded = 0   # bytes
        self.waits = []   # Wait

    def issue(self, at, one):
        written, sources = result_of(one)
        touched = written | reads_of(one, sources)
        awaited = self.group  # copies of older groups are awaited
        if one.op.startswith("LDGDEPBAR"):
            self.group += 1
        if one.op.startswith("DEPBAR"):
            awaited -= int(split(one.operands)[-1], 16) if "," in one.operands else 0
            touched = set()
        self.wait(at, one, [flying for flying in self.flying if flying[0].registers & touched or
                            one.op.startswith("DEPBAR") and (flying[1] or awaited) < awaited])
        if at in self.loads:
            load = self.loads[at]
            group = self.group if one.op.startswith("LDGSTS") else None
            self.loaded += load.bytes
            self.flying.append((load, group, self.time + 1, self.issued))
        self.issued += 1

    def wait(self, at, one, awaited):
        if not awaited:
            return
        in_flight = sum(load.bytes for load, *_ in self.flying)
        cover = self.issued - 1 - max(issued for *_, issued in awaited)
        self.waits.append(Wait(at, kind_of(one.op), in_flight, cover))
        self.time = max(arrival for _, _, arrival, _ in awaited)
        self.flying = [one for one in self.flying if one[2] > self.time]


def flight_of(code, loop, loads, counts):
    """Flight of a loop once it runs steadily; None if it loads nothing that counts."""
    walk = Walk(loads, counts)
    for at in range(loop.start):
        walk.issue(at, code[at])
    for number in range(2 * PASSES):
        if number == PASSES:
            loaded, time = walk.loaded, walk.time
            walk.waits = []
        for at in range(loop.start, loop.end + 1):
            walk.issue(at, code[at])
    loaded, trips = walk.loaded - loaded, walk.time - time
    if not loaded or not trips:
        return None
    last = {wait.at: wait for wait in walk.waits}
    return Flight(loaded // trips, trips / PASSES, list(last.values()))


def main_loops(code, loops, loads, counts):
    """Where a kernel spends its time: the tightest loops around its dots or matrix units, else the
    innermost loops with the most bytes that count. Those with less than half of the most are
    remainders and left out."""
    def work(loop):
        return macs_of(code[loop.start:loop.end + 1])[0]

    if not any(work(loop) for loop in loops):
        loops = [loop for loop in loops if is_innermost(loop, loops)]

        def work(loop):
            return sum(load.bytes for at, load in loads.items()
                       if loop.start <= at <= loop.end and counts(load))
    most = max(map(work, loops), default=0)
    heavy = [loop for loop in loops if work(loop) * 2 >= most and work(loop) > 0]
    return [loop for loop in heavy if is_innermost(loop, heavy)]


def pointers_of(ptx):
    """{kernel: [Pointer]} of the parameters that point to global memory."""
    out = {}
    for match in re.finditer(r"\.entry (\w+)\((.*?)\)", ptx, re.S):
        out[match[1]], at = [], 0
        for kind in re.finditer(r"\.param\s+(?:\.align (\d+)\s+)?\.([a-z])(\d+)(.*?)(?:,\n|\n|$)",
                                match[2]):
            count = re.search(r"\[(\d+)\]", kind[4])
            size = int(kind[3]) // 8
            at = -(-at // int(kind[1] or size)) * int(kind[1] or size)
            if target := re.search(r"\.ptr \.global \.align (\d+)", kind[4]):
                out[match[1]].append(Pointer(at, int(target[1])))
            at += size * int(count[1]) if count else size
    return out


def resources_of(log):
    """{kernel: {registers, spill_stores, spill_loads, shared}} of `ptxas -v`; bytes, registers."""
    patterns = {"registers": r"Used (\d+) registers", "spill_stores": r"(\d+) bytes spill stores",
                "spill_loads": r"(\d+) bytes spill loads", "shared": r"(\d+) bytes smem"}
    out, name = {}, None
    for line in log.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            name = match[1]
            out[name] = dict.fromkeys(patterns, 0)
        for what, pattern in patterns.items():
            if (match := re.search(pattern, line)) and name:
                out[name][what] = int(match[1])
    return out
