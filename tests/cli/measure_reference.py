#!/usr/bin/env python3
"""The measures from their definitions, in plain Python: what organ-measure is held to.

    measure_reference.py make MODEL            write a small GGUF of F32 and F16 tensors
    measure_reference.py check MODEL TABLE N   compare with organ-measure --sample N
"""
import math
import random
import struct
import sys


def string(b):
    return struct.pack('<Q', len(b)) + b


def make(path):
    rng = random.Random(7)
    tensors = []

    def add(name, dims, dtype, value):
        n = math.prod(dims)
        tensors.append((name, dims, dtype, [value(i) for i in range(n)]))

    add('token_embd.weight', (64, 50), 1, lambda i: rng.gauss(0, .02))
    add('blk.0.attn_q.weight', (96, 40), 0, lambda i: rng.gauss(0, 1) ** 3)
    add('blk.0.attn_k.weight', (128, 130), 1, lambda i: round(rng.gauss(0, 4)) / 4)
    add('blk.0.attn_norm.weight', (300,), 0, lambda i: 1 + math.sin(i / 9))
    add('blk.0.ffn_norm.weight', (64,), 0, lambda i: 1.0)
    add('blk.0.ffn_gate_exps.weight', (32, 16, 3), 0, lambda i: rng.random() * (1 + i // 512))
    add('blk.1.ffn_down.weight', (7, 11), 0, lambda i: float('nan') if i == 5 else float('-inf') if i == 70 else rng.gauss(0, 1))
    add('blk.1.ffn_up.weight', (1, 9), 1, lambda i: i % 4)
    add('rope_freqs.weight', (70001,), 0, lambda i: rng.gauss(0, 1) if i < 65536 else i / 65536)
    add('cls.weight', (70016, 3), 1, lambda i: rng.gauss(0, 1) if i % 70016 < 65536 else i % 70016 / 9000)
    add('output.weight', (4096, 3), 0, lambda i: rng.gauss(0, 1) + (i % 4096) / 900)
    head, data = b'', b''
    for name, dims, dtype, values in tensors:
        head += string(name.encode()) + struct.pack('<I%dQIQ' % len(dims), len(dims), *dims, dtype, len(data))
        data += struct.pack('<%d%s' % (len(values), 'fe'[dtype]), *values)
        data += b'\0' * (-len(data) % 32)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), 1) + string(b'general.name') + struct.pack('<I', 8) + string(b'made') + head
    with open(path, 'wb') as f:
        f.write(head + b'\0' * (-len(head) % 32) + data)


def read(path):
    """(name, dims, dtype, values) of each F32 and F16 tensor."""
    f = open(path, 'rb').read()
    at = 8

    def take(fmt):
        nonlocal at
        v = struct.unpack_from('<' + fmt, f, at)
        at += struct.calcsize('<' + fmt)
        return v[0] if len(v) == 1 else v

    def text():
        n = take('Q')
        return bytes(take('%ds' % n)) if n else b''

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            elem, n = take('IQ')
            return [value(elem) for _ in range(n)]
        return take({0: 'B', 1: 'b', 2: 'H', 3: 'h', 4: 'I', 5: 'i', 6: 'f', 7: 'B', 10: 'Q', 11: 'q', 12: 'd'}[kind])

    n, kvs = take('qq')
    align = 32
    for _ in range(kvs):
        key = text()
        v = value(take('I'))
        if key == b'general.alignment':
            align = v
    infos = []
    for _ in range(n):
        name = text().decode()
        dims = [take('Q') for _ in range(take('I'))]
        dtype, offset = take('IQ')
        infos.append((name, dims, dtype, offset))
    start = (at + align - 1) // align * align
    for name, dims, dtype, offset in infos:
        if dtype in (0, 1):
            count = math.prod(dims)
            yield name, dims, list(struct.unpack_from('<%d%s' % (count, 'fe'[dtype]), f, start + offset))


def entropy(v, low, span, bins):
    count = [0] * bins
    for x in v:
        count[min(bins - 1, int((x - low) / span * bins))] += 1
    return sum(c / len(v) * math.log2(len(v) / c) for c in count if c)


def moments(values):
    v = [x for x in values if math.isfinite(x)]
    r = dict(sampled=len(values), nonfinite=len(values) - len(v), mean=0, std=0, min=0, max=0, entropy=0, kurtosis=0,
             cv=0, theta=0, signal=0, dimension=0)
    if not v:
        return r
    low, high, n = min(v), max(v), len(v)
    span = high - low
    r.update(min=low, max=high, mean=math.fsum(v) / n)
    if span == 0:
        return r
    m2 = math.fsum((x - r['mean']) ** 2 for x in v) / n
    m4 = math.fsum((x - r['mean']) ** 4 for x in v) / n
    v.sort()
    gaps = [b - a for a, b in zip(v, v[1:])]
    gap = math.fsum(gaps) / len(gaps)
    h, k = entropy(v, low, span, 256) / 8, m4 / m2 ** 2 - 3
    c = math.sqrt(math.fsum((g - gap) ** 2 for g in gaps) / len(gaps)) / gap
    e = max(0, (.95 - h) / .25) if h > .7 else h / .3 if h < .3 else 1
    theta = 90 * (e + min(abs(k) / 3, 1) + min(max((c - .5) / .5, 0), 1)) / 3
    xs = range(4, 11)
    ys = [entropy(v, low, span, 2 ** x) for x in xs]
    mx, my = sum(xs) / 7, sum(ys) / 7
    slope = sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / sum((x - mx) ** 2 for x in xs)
    r.update(std=math.sqrt(m2), entropy=h, kurtosis=k, cv=c, theta=theta, signal=math.sin(math.radians(theta)), dimension=slope)
    return r


def pearson(a, b):
    both = [(x, y) for x, y in zip(a, b) if math.isfinite(x) and math.isfinite(y)]
    if len(both) < 2:
        return 0
    ma, mb = (math.fsum(p[i] for p in both) / len(both) for i in (0, 1))
    aa, bb = math.fsum((x - ma) ** 2 for x, _ in both), math.fsum((y - mb) ** 2 for _, y in both)
    return math.fsum((x - ma) * (y - mb) for x, y in both) / math.sqrt(aa * bb) if aa > 0 and bb > 0 else 0


def row_theta(dims, v):
    row = dims[0]
    rows = len(v) // row
    if rows == 1:
        rs = [pearson(v[:-1], v[1:])]
    else:
        pairs = min(64, rows - 1)
        first = [i * (rows - 1) // pairs for i in range(pairs)]
        rs = [pearson(v[f * row:(f + 1) * row], v[(f + 1) * row:(f + 2) * row]) for f in first]
    return math.degrees(math.acos(min(1, math.fsum(map(abs, rs)) / len(rs))))


def check(model, table, sample):
    lines = open(table).read().splitlines()
    names = lines[0].split('\t')
    rows = {x.split('\t')[0]: dict(zip(names, x.split('\t'))) for x in lines[1:]}
    bad = seen = 0
    for name, dims, v in read(model):
        n = min(sample or len(v), len(v))
        want = moments([v[i * len(v) // n] for i in range(n)])
        want['row_theta'] = row_theta(dims, v)
        want['elements'] = len(v)
        null = float(rows[name]['null_theta'])
        want['calibrated'] = 90 * max(0, want['theta'] - null) / (90 - null)
        seen += 1
        for column, x in want.items():
            got = float(rows[name][column])
            if abs(got - x) > 1e-6 * max(abs(x), 1e-3):
                bad += 1
                print(name, column, 'is', got, 'not', x)
    return 0 if seen and not bad else 1


if sys.argv[1] == 'make':
    make(sys.argv[2])
else:
    sys.exit(check(sys.argv[2], sys.argv[3], int(sys.argv[4])))
