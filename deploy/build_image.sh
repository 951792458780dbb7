#!/bin/sh
# The steps of the image, in the order in which the Dockerfile takes them. Each works in the folder it is called in.
#
#   sh deploy/build_image.sh packages run    into /opt/ratchet: what workers run on, the lean image
#   sh deploy/build_image.sh packages full   besides: what the page, the API and every extra run on
#   sh deploy/build_image.sh wheel           into ./wheels: Ratchet itself
#   sh deploy/build_image.sh install         ./wheels into /opt/ratchet, which is then closed: it has no pip any more
set -eu

PREFIX=/opt/ratchet
BUILD=/opt/build

# Wheels only, each one checked against its hash in the one lock.
locked() {
    python deploy/core_lock.py "$2" > "$2.lock"
    "$1/bin/pip" install --no-compile --require-hashes --only-binary :all: --requirement "$2.lock"
}

# By all processors, where pip takes one. Nobody can write bytecode later: every start, and every probe, would compile.
compiled() {
    "$PREFIX/bin/python" -m compileall -q -j 0 "$PREFIX/lib" > /dev/null || true # some packages ship files for other Pythons
}

case "$*" in
"packages run" | "packages full")
    [ -x "$PREFIX/bin/python" ] || python -m venv "$PREFIX"
    locked "$PREFIX" "$2"
    compiled
    ;;
wheel)
    python -m venv "$BUILD"
    locked "$BUILD" build
    "$BUILD/bin/pip" wheel --no-deps --no-index --no-build-isolation --wheel-dir wheels .
    ;;
install)
    "$PREFIX/bin/pip" install --no-compile --no-deps --no-index wheels/*.whl
    compiled
    "$PREFIX/bin/pip" check
    "$PREFIX/bin/python" -P -m ratchet_engine.worker --help
    "$PREFIX/bin/pip" uninstall --yes pip setuptools
    ;;
*)
    echo "usage: sh $0 packages {run|full} | wheel | install" >&2
    exit 2
    ;;
esac
