#!/usr/bin/python3
"""The methods of organ-merge as a user would write them with numpy: one thread, float32.

    merge.py METHOD OUT BASE MODEL MODEL     prints the CPU seconds, without those of starting
The arithmetic is that of mergekit, with the parameters that merge.sh gives to organ-merge. Only
for models of bench_model: F16 tensors of two dimensions.
"""
import sys
import time

from arithmetic import Model, each, np  # arithmetic sets the number of threads to 1


def norm(x):
    return np.linalg.norm(x.ravel())


def linear(_, a, b):
    return np.float32(0.6) * a + np.float32(0.4) * b


def arc(a, b, t):
    c = np.vdot(a, b) / (norm(a) * norm(b))
    if abs(c) > 0.9995:
        return a + np.float32(t) * (b - a)
    angle = np.arccos(c)
    wa, wb = np.sin((1 - t) * angle) / np.sin(angle), np.sin(t * angle) / np.sin(angle)
    return np.float32(wa) * a + np.float32(wb) * b


def slerp(base, a, _):
    return arc(base, a, 0.4)


def nuslerp(base, a, b):
    return base + arc(a - base, b - base, 0.4)


def multislerp(base, a, b):
    da, db = a - base, b - base
    na, nb = norm(da), norm(db)
    mean = np.float32(0.6 / na) * da + np.float32(0.4 / nb) * db
    return base + mean * np.float32((0.6 * na + 0.4 * nb) / norm(mean))


def karcher(_, a, b):
    na, nb = norm(a), norm(b)
    ua, ub = a / na, b / nb
    u = (ua + ub) / 2
    u /= norm(u)
    for _ in range(10):
        tangent = np.zeros_like(u)
        for v in (ua, ub):
            c = np.clip(np.vdot(u, v), -1, 1)
            angle = np.arccos(c)
            if angle >= 1e-5:
                tangent += np.float32(0.5 * angle / np.sin(angle)) * (v - c * u)
        far = norm(tangent)
        if far < 1e-5:
            break
        u = np.cos(far) * u + np.float32(np.sin(far) / far) * tangent
        u /= norm(u)
    return u * np.float32((na + nb) / 2)


def task(base, a, b):
    return base + np.float32(0.6) * (a - base) + np.float32(0.4) * (b - base)


def largest(d, density):
    """1 for the largest values, as the reference finds them: by sorting."""
    mask = np.zeros(d.size, np.float32)
    mask[np.argsort(-np.abs(d.ravel()))[: int(density * d.size)]] = 1
    return mask.reshape(d.shape)


def consensus(base, d, normalize):
    weights = np.array([0.6, 0.4], np.float32).reshape(-1, 1, 1)
    weighted = d * weights
    agree = np.sign(weighted) == np.where(weighted.sum(0) >= 0, 1, -1)
    total = (weighted * agree).sum(0)
    if normalize:
        share = (agree * weights).sum(0)
        total /= np.where(share == 0, 1, share)
    return base + total


def rescaled(d, mask):
    kept = d * mask
    return kept * (np.abs(d).sum() / np.abs(kept).sum())


def ties(base, a, b):
    return consensus(base, np.stack([d * largest(d, 0.3) for d in (a - base, b - base)]), True)


def dare(base, a, b):
    rng = np.random.default_rng(1)
    return np.stack([rescaled(d, rng.random(d.shape, np.float32) < 0.3) for d in (a - base, b - base)])


def added(base, d):
    return base + np.float32(0.6) * d[0] + np.float32(0.4) * d[1]


def dare_linear(base, a, b):
    return added(base, dare(base, a, b))


def dare_ties(base, a, b):
    return consensus(base, dare(base, a, b), False)


def della_of(base, a, b):
    rng, out = np.random.default_rng(1), []
    for d in (a - base, b - base):
        ranks = np.argsort(np.argsort(np.abs(d), axis=1), axis=1)
        p = np.float32(0.35) + ranks * np.float32(0.3 / (d.shape[1] - 1))
        out.append(rescaled(d, rng.random(d.shape, np.float32) < p))
    return np.stack(out)


def della(base, a, b):
    return consensus(base, della_of(base, a, b), True)


def della_linear(base, a, b):
    return added(base, della_of(base, a, b))


def crumbs(base, a, b):
    out = []
    for d in (a - base, b - base):
        order = np.argsort(-np.abs(d.ravel()))
        mask, drop = np.zeros(d.size, np.float32), int(0.01 * d.size)
        mask[order[drop : drop + int(0.6 * d.size)]] = 1
        out.append(d * mask.reshape(d.shape))
    return np.stack(out)


def breadcrumbs(base, a, b):
    return added(base, crumbs(base, a, b))


def breadcrumbs_ties(base, a, b):
    return consensus(base, crumbs(base, a, b), False)


def sce(base, a, b):
    d = np.stack([a - base, b - base])
    variance = d.var(0).ravel()
    n = int(0.3 * np.count_nonzero(variance))
    mask = np.zeros(variance.size, np.float32)
    mask[np.argpartition(-variance, n)[:n]] = 1
    d *= mask.reshape(base.shape)
    energy = np.square(d).reshape(2, -1).mean(1)
    weights = (energy / energy.sum()).reshape(-1, 1, 1).astype(np.float32)
    agree = np.sign(d) == np.where(d.sum(0) >= 0, 1, -1)
    share = (agree * weights).sum(0)
    return base + (d * agree * weights).sum(0) / np.where(share == 0, 1, share)


def model_stock(base, a, b):
    da, db = a - base, b - base
    c = np.vdot(da, db) / (norm(da) * norm(db))
    t = np.float32(2 * c / (1 + c))
    return base + t * (da + db) / 2


def nearswap(base, a, _):
    w = np.float32(0.001) / np.abs(base - a)
    w[~np.isfinite(w)] = 1
    w = np.clip(w, 0, 1)
    return w * a + (1 - w) * base


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def arcee_fusion(base, a, _):
    p, q = softmax(a) + np.float32(1e-8), softmax(base) + np.float32(1e-8)
    importance = np.abs(a - base) * (p * np.log(p / q)).sum(axis=1, keepdims=True)
    s = np.sort(importance.ravel())
    low, mid, high = (s[int(k * (s.size - 1))] for k in (0.25, 0.5, 0.75))
    return base + (a - base) * (importance >= mid + 1.5 * (high - low))


def changes(base, a, b):
    d = np.stack([a - base, b - base])
    changed = np.abs(d) > 1e-5
    return d, changed, changed.sum(0)


def ram(base, a, b):
    d, changed, n = changes(base, a, b)
    return base + (d * changed).sum(0) / np.maximum(n, 1).astype(np.float32)


def ramplus(base, a, b):
    d, changed, n = changes(base, a, b)
    total = np.zeros_like(base)
    for one, mine in zip(d, changed):
        shared, own = np.count_nonzero(mine & (n > 1)), np.count_nonzero(mine & (n == 1))
        gain = np.float32(1 + 0.1 * min(shared / max(own, 1e-5), 0.2))
        total += np.where(mine, np.where(n == 1, one * gain, one / np.maximum(n, 1).astype(np.float32)), 0)
    return base + total


def iso(base, a, b):
    d = (a - base) + (b - base)
    u, s, vt = np.linalg.svd(d, full_matrices=False)
    return base + np.float32(0.6) * s.mean() * (u @ vt)


if __name__ == "__main__":
    method, out, paths = globals()[sys.argv[1]], sys.argv[2], sys.argv[3:]
    start = time.process_time()
    base, *others = [Model(path) for path in paths]
    each(base, out, lambda i, x: method(x, *(m.read(i) for m in others)))
    print(f"{time.process_time() - start:.3f}")
