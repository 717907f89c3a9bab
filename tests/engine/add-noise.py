#!/usr/bin/env python3
"""add-noise.py IN.gguf LIST.tsv REL OUT.gguf - the control of purify-sweep.sh: white
Gaussian noise of REL times their L2 norm added to the F16 FFN organs of a model.
LIST.tsv is what `organ-extract IN.gguf --list` prints. Needs numpy."""
import sys
import numpy as np

source, listing, rel, target = sys.argv[1:]
data = bytearray(open(source, "rb").read())
lines = [l.rstrip("\n").split("\t") for l in open(listing)]
rows = [dict(zip(lines[0], l)) for l in lines[1:]]
start = len(data) - max((int(r["offset"]) + int(r["bytes"]) + 31) // 32 * 32 for r in rows)
rng = np.random.default_rng(1)
for r in rows:
    if r["class"] != "organ" or r["dtype"] != "F16":
        continue
    at = start + int(r["offset"])
    x = np.frombuffer(bytes(data[at:at + int(r["bytes"])]), np.float16).astype(np.float64)
    noise = rng.standard_normal(x.size)
    x += noise * (float(rel) * np.linalg.norm(x) / np.linalg.norm(noise))
    data[at:at + int(r["bytes"])] = x.astype(np.float16).tobytes()
open(target, "wb").write(data)
