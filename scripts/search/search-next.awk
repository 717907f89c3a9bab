# search-next.awk - decides what organ-search evaluates next. Reads the knobs, as search-knobs.awk
# prints them, and the table of evaluations. The search is repeated from its start each time, with
# the scores of the table; at the first point without one, that point is printed, as the values of
# the knobs separated by tabs. So a search that was interrupted goes on as if it had not been.
# Prints nothing when the search has ended.
#
# Coordinate search: one knob after the other is tried on both sides of its value. A parabola
# through the three scores gives the next value to try. In later sweeps its curvature is known, so
# that one side is enough. After each sweep, all knobs go on together by what the sweep moved them.
BEGIN { FS = "\t" }
FNR == 1 { file++ }
file == 1 {
    n++
    kind[n] = $2
    if ($2 == "c") {
        x[n] = $3
        n_choice[n] = NF - 3
        for (i = 4; i <= NF; i++) choice[n, i - 3] = $i
        next
    }
    low[n] = $4 + 0; high[n] = $5 + 0; step[n] = $6 + 0
    x[n] = text($3 + 0)
    d[n] = (high[n] - low[n]) / 8
    least[n] = (high[n] - low[n]) / 200
    if (d[n] < step[n]) d[n] = step[n]
    if (least[n] < step[n]) least[n] = step[n]
    next
}
FNR > 1 {
    key = $4
    for (i = 2; i <= n; i++) key = key "\t" $(i + 3)
    score[key] = $2 == "failed" ? 1e30 : $2 + 0
}

function text(v) { return sprintf("%.4g", v) + 0 == 0 ? "0" : sprintf("%.4g", v) }

# The value of knob i nearest to v that is allowed, as it is written in the table.
function allowed(i, v) {
    if (v > high[i]) v = high[i]
    if (v < low[i]) v = low[i]
    if (step[i] > 0) {
        v = low[i] + int((v - low[i]) / step[i] + 0.5) * step[i]
        if (v > high[i] + step[i] / 1000) v -= step[i]
    }
    return text(v)
}

# The score of a point. Without one, prints the point and ends the program.
function f(p,    key, i) {
    key = p[1]
    for (i = 2; i <= n; i++) key = key "\t" p[i]
    if (!(key in score)) { print key; found = 1; exit 0 }
    return score[key]
}

# The score with knob i at v.
function at(i, v,    old, result) {
    old = x[i]
    x[i] = v
    result = f(x)
    x[i] = old
    return result
}

function keep(i, v, score_there) {
    if (score_there < fx) { x[i] = v; fx = score_there }
}

function try_choices(i,    k, from) {
    from = x[i]
    for (k = 1; k <= n_choice[i]; k++)
        if (choice[i, k] != from) keep(i, choice[i, k], at(i, choice[i, k]))
}

# The curvature of knob i from the scores at 0, a and b (distances from its value).
function bend(f0, a, fa, b, fb) { return ((fa - f0) / a - (fb - f0) / b) / (a - b) }

# Tries the lowest point of the parabola with the slope that follows from f(from + a) = fa.
function try_bottom(i, from, f0, a, fa,    slope, move, v, gain) {
    slope = (fa - f0) / a - curve[i] * a
    move = -slope / (2 * curve[i])
    if (move > 2.5 * d[i]) move = 2.5 * d[i]
    if (move < -2.5 * d[i]) move = -2.5 * d[i]
    v = allowed(i, from + move)
    move = v - from
    gain = fx - (f0 + slope * move + curve[i] * move * move)
    if (gain > tolerance) keep(i, v, at(i, v))
}

function try_number(i,    from, f0, a, b, fa, fb, up, down, moved) {
    from = x[i] + 0
    f0 = fx
    up = allowed(i, from + way[i] * d[i])
    if (up == x[i]) up = allowed(i, from - way[i] * d[i])
    if (up == x[i]) return
    a = up - from
    fa = at(i, up)
    if (curve[i] > 0 && fa < 1e29) {
        keep(i, up, fa)
        try_bottom(i, from, f0, a, fa)
    } else {
        down = allowed(i, from - a)
        if (down == text(from)) down = allowed(i, from + 2 * a)
        if (down == text(from) || down == up) { keep(i, up, fa); return }
        b = down - from
        fb = at(i, down)
        keep(i, up, fa)
        keep(i, down, fb)
        if (fa < 1e29 && fb < 1e29) curve[i] = bend(f0, a, fa, b, fb)
        if (curve[i] > 0 && fa < 1e29 && fb < 1e29) try_bottom(i, from, f0, a, fa)
    }
    moved = x[i] - from
    if (moved != 0) way[i] = moved < 0 ? -1 : 1
    if (moved < 0) moved = -moved
    # The next sweep looks as far as this one moved, but never much less than it looked now.
    if (moved > d[i]) d[i] = moved
    else if (moved < d[i] / 2) d[i] /= 2
    if (d[i] < least[i]) d[i] = least[i]
}

# All knobs go on by what the last sweep moved them.
function go_on(    i, y, moves, fy) {
    for (i = 1; i <= n; i++) {
        y[i] = x[i]
        if (kind[i] == "n" && x[i] != was[i]) { y[i] = allowed(i, 2 * x[i] - was[i]); moves++ }
    }
    if (moves < 2) return
    fy = f(y)
    if (fy < fx) { fx = fy; for (i = 1; i <= n; i++) x[i] = y[i] }
}

END {
    if (found) exit 0
    for (i = 1; i <= n; i++) way[i] = 1
    fx = f(x)
    for (sweep = 1; sweep <= 100; sweep++) {
        begin = fx
        finest = 1
        for (i = 1; i <= n; i++) {
            was[i] = x[i]
            if (kind[i] == "c") try_choices(i)
            else { if (d[i] > least[i]) finest = 0; try_number(i) }
        }
        go_on()
        idle = begin - fx < 2 * tolerance ? idle + 1 : 0
        if (idle && (finest || idle == 2)) exit 0
    }
}
