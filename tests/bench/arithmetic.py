#!/usr/bin/python3
"""What a user would write with numpy instead of the tools: one thread, float32.

    arithmetic.py adapter BASE OUT RANK     write a LoRA adapter for every tensor of BASE
    arithmetic.py linear BASE DONOR OUT T   and so on, see JOBS
Only for models of bench_model: F16 tensors of two dimensions.
"""
import os
import struct
import sys

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
import numpy as np  # noqa: E402 (reads the variables)

F32, F16 = 0, 1


class Model:
    """The header and the tensors of a GGUF file without arrays in its metadata."""

    def __init__(self, path):
        self.file = open(path, "rb")
        magic, _, n, keys = struct.unpack("<4sIQQ", self.file.read(24))
        assert magic == b"GGUF"
        for _ in range(keys):
            self.text()
            (kind,) = struct.unpack("<I", self.file.read(4))
            self.text() if kind == 8 else self.file.read({4: 4, 6: 4}[kind])
        self.tensors = []
        for _ in range(n):
            name = self.text().decode()
            (dims,) = struct.unpack("<I", self.file.read(4))
            shape = struct.unpack(f"<{dims}Q", self.file.read(8 * dims))[::-1]
            kind, at = struct.unpack("<IQ", self.file.read(12))
            self.tensors.append((name, shape, np.float16 if kind == F16 else np.float32, at))
        self.data = (self.file.tell() + 31) // 32 * 32

    def text(self):
        (n,) = struct.unpack("<Q", self.file.read(8))
        return self.file.read(n)

    def read(self, i):
        name, shape, dtype, at = self.tensors[i]
        self.file.seek(self.data + at)
        return np.fromfile(self.file, dtype, int(np.prod(shape))).reshape(shape).astype(np.float32)

    def head(self):
        self.file.seek(0)
        return self.file.read(self.data)


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write_adapter(base, out, rank):
    """One pair per tensor, random, with the keys that organ-graft --adapter wants."""
    rng, infos, blobs, at = np.random.default_rng(1), [], [], 0
    for name, (rows, columns), _, _ in base.tensors:
        for half, shape in (("lora_a", (rank, columns)), ("lora_b", (rows, rank))):
            info = text(f"{name}.{half}") + struct.pack("<I2Q", 2, shape[1], shape[0])
            infos.append(info + struct.pack("<IQ", F32, at))
            blobs.append((rng.standard_normal(shape) * 0.01).astype(np.float32).tobytes())
            at += len(blobs[-1])
    keys = [("general.type", "adapter"), ("general.architecture", "llama"), ("adapter.type", "lora")]
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(keys) + 1)
    head += b"".join(text(k) + struct.pack("<I", 8) + text(v) for k, v in keys)
    head += text("adapter.lora.alpha") + struct.pack("<If", 6, rank) + b"".join(infos)
    with open(out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for blob in blobs:
            f.write(blob)


def each(base, out, work):
    with open(out, "wb") as f:
        f.write(base.head())
        for i in range(len(base.tensors)):
            work(i, base.read(i)).astype(np.float16).tofile(f)


def linear(base, donor, out, t):
    each(base, out, lambda i, a: a + np.float32(t) * (donor.read(i) - a))


def slerp(base, donor, out, t):
    def work(i, a):
        b = donor.read(i)
        c = np.vdot(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))
        if abs(c) > 0.9995:
            return a + np.float32(t) * (b - a)
        angle = np.arccos(c)
        wa, wb = np.sin((1 - t) * angle) / np.sin(angle), np.sin(t * angle) / np.sin(angle)
        return np.float32(wa) * a + np.float32(wb) * b

    each(base, out, work)


def lora(base, adapter, out):
    each(base, out, lambda i, a: a + adapter.read(2 * i + 1) @ adapter.read(2 * i))


def compare(base, donor):
    for i in range(len(base.tensors)):
        a, b = base.read(i).ravel(), donor.read(i).ravel()
        d = a - b
        na, nb = np.linalg.norm(a), np.linalg.norm(b)
        print(np.dot(a, b) / (na * nb), np.linalg.norm(d) / na, np.abs(d).max())


def haar(base, out, strength):
    """One level: the small details below the universal threshold go."""

    def work(_, x):
        even, odd = x.ravel()[0::2], x.ravel()[1::2]
        low, high = (even + odd) * np.float32(0.5**0.5), (even - odd) * np.float32(0.5**0.5)
        sigma = np.median(np.abs(high)) / 0.6745
        high[np.abs(high) < strength * sigma * np.sqrt(2 * np.log(x.size))] = 0
        y = np.empty(x.size, np.float32)
        y[0::2], y[1::2] = (low + high) * np.float32(0.5**0.5), (low - high) * np.float32(0.5**0.5)
        return y.reshape(x.shape)

    each(base, out, work)


def fft(base, out, strength):
    def work(_, x):
        f = np.fft.rfft(x, axis=1)
        power = f.real**2 + f.imag**2
        f[power < strength * np.mean(power, axis=1, keepdims=True)] = 0
        return np.fft.irfft(f, x.shape[1], axis=1).astype(np.float32)

    each(base, out, work)


def main():
    job, base, rest = sys.argv[1], Model(sys.argv[2]), sys.argv[3:]
    if job == "adapter":
        write_adapter(base, rest[0], int(rest[1]))
    elif job in ("linear", "slerp"):
        globals()[job](base, Model(rest[0]), rest[1], float(rest[2]))
    elif job == "lora":
        lora(base, Model(rest[0]), rest[1])
    elif job == "compare":
        compare(base, Model(rest[0]))
    else:
        globals()[job](base, rest[0], float(rest[1]))


if __name__ == "__main__":
    main()
