# install.awk - replaces paths of the source tree by those of the installation, which are
# given in the environment (prefix, docdir, ...). Used by `make install`.
#
#   libgguf.pc.in   @prefix@ and similar. Paths below prefix start with ${prefix}, so
#                   that pkg-config --define-prefix can move them.
#   manual pages    docs/ tests/data/lab scripts/recipes tests/engine build/bin
#   scripts         tests/data/lab scripts/recipes
function swap(text, from, to,    out, at) {
    while ((at = index(text, from)) > 0) {
        out = out substr(text, 1, at - 1) to
        text = substr(text, at + length(from))
    }
    return out text
}
function below(dir, root, name) {
    return index(dir "/", root "/") == 1 ? name substr(dir, length(root) + 1) : dir
}
BEGIN {
    prefix = ENVIRON["prefix"]
    data = ENVIRON["pkgdatadir"]
    n = split("exec_prefix libdir includedir", dirs, " ")
}
FNR == 1 { pc = FILENAME ~ /\.pc\.in$/; man = FILENAME ~ /\.[1-9]$/ }
pc {
    $0 = swap($0, "@prefix@", prefix)
    $0 = swap($0, "@version@", ENVIRON["version"])
    for (i = 1; i <= n; i++)
        $0 = swap($0, "@" dirs[i] "@", below(ENVIRON[dirs[i]], prefix, "${prefix}"))
}
man {
    $0 = swap($0, "tests/engine", data "/engine")
    $0 = swap($0, "$PWD/build/bin", "build/bin")
    $0 = swap($0, "build/bin", ENVIRON["bindir"])
    $0 = swap($0, "docs/", ENVIRON["docdir"] "/docs/")
}
!pc {
    $0 = swap($0, "tests/data/lab", data "/examples")
    $0 = swap($0, "scripts/recipes", data "/scripts/recipes")
}
{ print }
