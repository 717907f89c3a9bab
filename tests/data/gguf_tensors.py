"""Reads GGUF files that ggml made, for the scripts how-made*.sh."""
import struct


def tensors(path):
    """name -> (dims, bytes from the tensor to the end of the file)"""
    data = open(path, 'rb').read()
    at = 8
    def take(fmt):
        nonlocal at
        v = struct.unpack_from('<' + fmt, data, at)
        at += struct.calcsize('<' + fmt)
        return v if len(v) > 1 else v[0]
    def text():
        return take('%ds' % take('Q'))
    def skip(kind):
        if kind == 8: text()
        elif kind == 9:
            inner, n = take('IQ')
            for _ in range(n): skip(inner)
        else: take({0: 'B', 1: 'b', 2: 'H', 3: 'h', 7: 'B', 10: 'Q', 11: 'q', 12: 'd'}.get(kind, 'I'))
    n_tensors, n_kv = take('QQ')
    for _ in range(n_kv):
        text()
        skip(take('I'))
    found = {}
    for _ in range(n_tensors):
        name, n = text().decode(), take('I')
        dims = struct.unpack('<%dQ' % n, take('%ds' % (8 * n)))
        found[name] = (dims, take('IQ')[1])
    base = (at + 31) // 32 * 32
    return {k: (d, data[base + o:]) for k, (d, o) in found.items()}
