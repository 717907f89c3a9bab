#!/bin/sh
# how-made-iq.sh VECTORS - trims the reference's vectors to the files of this folder.
#
# VECTORS holds GGUF files that ggml made: dequant-TYPE.gguf and
# edge/dequant-edge-TYPE.gguf (tensors q, f), quant-TYPE.gguf and
# quant-imatrix-TYPE.gguf (x, q, imatrix). Written here, little-endian:
#   decode-iq-TYPE.bin  one or two parts: u32 rows, u32 bytes and u32 values of a row;
#                       the rows' blocks; a u64 for each row, the FNV-1a hash of the
#                       32-bit words of the floats it decodes to (NaN as 7fc00000)
#   rows-iq.bin         f32, 42 rows of 256: the first 256 columns of x
#   imatrix-iq.bin      f32, the first 256 weights
#   encode-iq-TYPE.bin  the blocks of those rows; with the imatrix where ggml needs one
#   encode-im-iq-TYPE.bin  the blocks of the first 16 of them, with the imatrix
set -eu
[ $# = 1 ] || { echo "usage: how-made-iq.sh VECTORS" >&2; exit 2; }
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$(dirname "$0")/.. exec python3 - "$1" "$(dirname "$0")" <<'PYTHON'
import os, struct, sys
from gguf_tensors import tensors

vectors, out = sys.argv[1:]
# name: values, bytes of a block, rows to keep (all where a grid is to be covered)
TYPES = {
    'IQ1_S': (256, 50, 64), 'IQ1_M': (256, 56, 64), 'IQ2_XXS': (256, 66, 64), 'IQ2_XS': (256, 74, 64),
    'IQ2_S': (256, 82, 64), 'IQ3_XXS': (256, 98, 32), 'IQ3_S': (256, 110, 32), 'IQ4_NL': (32, 18, 20),
    'IQ4_XS': (256, 136, 16), 'TQ1_0': (256, 54, 20), 'TQ2_0': (256, 66, 20), 'MXFP4': (32, 17, 40),
    'NVFP4': (64, 36, 40), 'Q1_0': (128, 18, 20), 'Q2_0': (64, 18, 20)}

def write(name, data):
    with open(os.path.join(out, name), 'wb') as f: f.write(data)

def row_hash(data):
    h = 0xcbf29ce484222325
    for (u,) in struct.iter_unpack('<I', data):
        if u & 0x7fffffff > 0x7f800000: u = 0x7fc00000
        h = (h ^ u) * 0x100000001b3 & 0xffffffffffffffff
    return struct.pack('<Q', h)

def section(path, name, keep):
    elems, size, _ = TYPES[name]
    t = tensors(path)
    cols, rows = t['f'][0]
    row_bytes = cols // elems * size
    picked = [i * rows // min(keep, rows) for i in range(min(keep, rows))]
    return (struct.pack('<III', len(picked), row_bytes, cols)
            + b''.join(t['q'][1][r * row_bytes:(r + 1) * row_bytes] for r in picked)
            + b''.join(row_hash(t['f'][1][4 * r * cols:4 * (r + 1) * cols]) for r in picked))

for name, (elems, size, keep) in TYPES.items():
    data = section(os.path.join(vectors, 'dequant-%s.gguf' % name), name, keep)
    data += section(os.path.join(vectors, 'edge', 'dequant-edge-%s.gguf' % name), name, 4)
    write('decode-iq-%s.bin' % name, data)
    for stem in ('quant', 'quant-imatrix'):
        path = os.path.join(vectors, '%s-%s.gguf' % (stem, name))
        if not os.path.exists(path): continue
        t = tensors(path)
        cols, rows = t['x'][0]
        if stem == 'quant':
            write('rows-iq.bin', b''.join(t['x'][1][4 * r * cols:][:1024] for r in range(rows)))
        if 'imatrix' in t: write('imatrix-iq.bin', t['imatrix'][1][:1024])
        row_bytes = cols // elems * size
        write('encode-%siq-%s.bin' % ('im-' if stem == 'quant-imatrix' else '', name),
              b''.join(t['q'][1][r * row_bytes:][:256 // elems * size] for r in range(rows)))
PYTHON
