#!/bin/sh
# how-made.sh VECTORS - trims the reference's vectors to the files of this folder.
#
# VECTORS holds GGUF files that ggml made: dequant-TYPE.gguf and
# edge/dequant-edge-TYPE.gguf (tensors q, f), quant-TYPE.gguf (x, q) and
# quant-imatrix-TYPE.gguf (x, q, imatrix). Written here, little-endian:
#   decode-TYPE.bin          u32 number of values, blocks, f32 they decode to
#   rows.bin                 f32, 16 rows of 512
#   encode-TYPE.bin          the blocks of those rows
#   rows-imatrix.bin         f32, 3 rows of 1024, then 1024 weights
#   encode-imatrix-TYPE.bin  the blocks of those rows
set -eu
[ $# = 1 ] || { echo "usage: how-made.sh VECTORS" >&2; exit 2; }
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$0")/.. exec python3 - "$1" "$(dirname "$0")" <<'PYTHON'
import os, struct, sys
from gguf_tensors import tensors

vectors, out = sys.argv[1:]
TYPES = {  # name: values, bytes of a block
    'F32': (1, 4), 'F16': (1, 2), 'BF16': (1, 2), 'F64': (1, 8), 'Q4_0': (32, 18), 'Q4_1': (32, 20),
    'Q5_0': (32, 22), 'Q5_1': (32, 24), 'Q8_0': (32, 34), 'Q8_1': (32, 36), 'Q2_K': (256, 84),
    'Q3_K': (256, 110), 'Q4_K': (256, 144), 'Q5_K': (256, 176), 'Q6_K': (256, 210), 'Q8_K': (256, 292)}
ROWS = [0, 5, 11, 17, 20, 21, 24, 26, 28, 30, 31, 32, 35, 37, 40, 41]

def write(name, data):
    with open(os.path.join(out, name), 'wb') as f: f.write(data)

for name, (elems, size) in TYPES.items():
    q = f = b''
    def part(path, start, n):  # n values from start, both whole blocks
        global q, f
        if not os.path.exists(path): return
        t = tensors(path)
        q += t['q'][1][start // elems * size:(start + n) // elems * size]
        f += t['f'][1][4 * start:4 * (start + n)]
    path = os.path.join(vectors, 'dequant-%s.gguf' % name)
    if os.path.exists(path):
        (cols, rows), _ = tensors(path)['f']
        cols -= cols % 256
        part(path, 0, 768)
        part(path, cols * rows // 2 // 256 * 256, 1024)
    part(os.path.join(vectors, 'edge', 'dequant-edge-%s.gguf' % name), 0, 768)
    if q: write('decode-%s.bin' % name, struct.pack('<I', len(f) // 4) + q + f)

    path = os.path.join(vectors, 'quant-%s.gguf' % name)
    if name[0] == 'Q':
        t = tensors(path)
        row = t['x'][0][0]
        cut = lambda data, n: b''.join(data[r * row * n[1] // n[0]:][:512 * n[1] // n[0]] for r in ROWS)
        write('encode-%s.bin' % name, cut(t['q'][1], (elems, size)))
        write('rows.bin', cut(t['x'][1], (1, 4)))
    path = os.path.join(vectors, 'quant-imatrix-%s.gguf' % name)
    if os.path.exists(path):
        t = tensors(path)
        row = t['x'][0][0]
        cut = lambda data, n: b''.join(data[r * row * n[1] // n[0]:][:row * n[1] // n[0]] for r in (0, 10, 13))
        write('encode-imatrix-%s.bin' % name, cut(t['q'][1], (elems, size)))
        write('rows-imatrix.bin', cut(t['x'][1], (1, 4)) + t['imatrix'][1][:4 * row])
PYTHON
