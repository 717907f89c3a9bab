#!/bin/sh
# check-portable.sh - checks that the installed scripts and the tests use only utilities and options of POSIX, or
# extensions that they test for, that each awk reads all programs for awk alike, and that the makefiles work
# with make 3.81 (macOS).
#
#   check-portable.sh [FILE...]     print every violation, and exit with 1 if there is one
#   check-portable.sh --list        print what the scripts use
set -u
case ${1-} in */*) ;; *) cd "$(dirname "$0")/.." || exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
list=
if [ "${1-}" = --list ]; then list=1; shift; fi
# Installed scripts, the build and the tests of `make test` may use these utilities only. Of the scripts of
# developers, only their programs for awk are checked.
developers=
if [ $# = 0 ]; then
    # shellcheck disable=SC2046 # paths without spaces
    set -- Makefile $(find scripts src tools tests -type f '(' -name '*.awk' -o -name '*.mk' -o -name '*.sh' -o \
        -name 'organ*' ! -name '*.*' ! -path '*/completion/*' ')' | sort)
    for f; do
        case $f in
        tests/cli/* | tests/run.sh | tests/targets.mk) ;;
        tests/* | scripts/check-* | scripts/count-* | scripts/options.sh | scripts/packaging/*)
            developers="$developers $f" ;;
        esac
    done
fi

T=$(mktemp -d "${TMPDIR:-/tmp}/check-portable.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT

# posix: a utility and its options as for getopts. readlink is new in POSIX.1-2024.
# extra: an extension, and a pattern that its line must match, because the line tests for it.
# other: programs that the scripts look for before they use them.
# tests: the programs of tests/unit, and what GNU, BSD and busybox have alike or a test may see fail. Tests ask for others with `have`.
cat > "$T/table" << 'EOT'
posix	awk	F:f:v:
posix	basename	-
posix	cat	u
posix	chmod	R
posix	cksum	-
posix	cmp	ls
posix	cp	fHiLPpRr
posix	cut	b:c:d:f:ns
posix	date	u
posix	dd	-
posix	diff	bcefruC:U:
posix	dirname	-
posix	du	aHkLsx
posix	env	i
posix	expr	-
posix	find	HL
posix	getconf	v:
posix	grep	EFce:f:ilnqsvx
posix	head	n:
posix	id	Ggnru
posix	ln	fsLP
posix	ls	aCFRiLlnrtu1d
posix	make	ef:iknpqrstS
posix	mkdir	m:p
posix	mkfifo	m:
posix	mktemp	-
posix	mv	fi
posix	paste	d:s
posix	od	A:bcdj:N:osxt:v
posix	ps	aeflAo:p:t:u:G:
posix	readlink	n
posix	rm	fiRr
posix	rmdir	p
posix	sed	e:f:n
posix	sh	ceux
posix	sleep	-
posix	sort	bcdfik:mno:rt:u
posix	stty	-
posix	tail	c:fn:
posix	tee	a
posix	touch	acmr:t:
posix	tr	Ccds
posix	uname	amnrsv
posix	uniq	cdf:s:u
posix	wc	clmw
posix	xargs	E:I:L:n:ps:tx
find	-H
find	-L
find	-a
find	-depth
find	-exec
find	-mtime
find	-perm
find	-size
find	-user
find	-xdev
find	-name
find	-newer
find	-path
find	-print
find	-prune
find	-type
find	-o
extra	mktemp -d	(\|\||t=)
extra	mktemp -	(\|\||t=)
extra	xargs -P	(xargs -P 2 true|"\$jobs")
extra	sleep 0.1	\|\| sleep 1
extra	date %N	clock=
extra	getconf _NPROCESSORS_ONLN	\|\| echo 1
tests	cost
tests	mkmodel
tests	zerodim
tests	mutant
tests	onpty
tests	permute
tests	unpack
tests	yes
tests	mknod
tests	mount
tests	umount
tests	date %N
tests	sleep 0.1
tests	find -maxdepth
tests	find -mindepth
tests	grep -A
tests	grep -a
tests	grep -o
tests	grep -r
tests	grep -w
tests	head -c
tests	ls -A
tests	od -w
tests	sort -g
tests	sort -s
tests	getconf _NPROCESSORS_ONLN
other	ar
other	busybox
other	clang
other	clang-format
other	cppcheck
other	curl
other	git
other	lighttpd
other	llama-cli
other	llama-perplexity
other	node
other	npm
other	parallel
other	sbatch
other	scancel
other	qemu-aarch64
other	shellcheck
other	pkg-config
EOT
LC_ALL=C awk -v table="$T/table" -v list_all="$list" -v awk_only_files="$developers " -f "$here/check-portable.awk" "$@"
