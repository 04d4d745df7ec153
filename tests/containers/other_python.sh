#!/bin/sh
# Run the tests that are quick in a container of another Python than the one that the image has.
#
#   other_python.sh IMAGE [pytest options and paths]      for instance python:3.13-slim-trixie
#
# All is installed from the developers' lock, hashes checked. An image that cannot be pulled is made from Debian's packages
# (stand_ins.sh), and what was made is removed again. It skips, and says so, where no engine runs.
#
#   STAND_INS=yes       do not even try to pull
#   KEEP_IMAGES=yes     leave the images for the next run
set -eu
cd "$(dirname "$0")/../.."
image=${1:?usage: other_python.sh IMAGE [pytest options and paths]}
shift

docker info > /dev/null 2>&1 || { echo "other-python: SKIPPED: no container engine runs here"; exit 0; }
work=$(mktemp -d)

# images: the one that was asked for and those that stand-ins are made from, as far as they are here
images() {
    docker image ls --format '{{.Repository}}:{{.Tag}}' | grep -e "^$image\$" -e '^parsimony-stand-in:' || :
}

tidy() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM
    [ "${KEEP_IMAGES:-}" = yes ] || for made in $(images | grep -vxF "${before:-none}"); do
        docker image rm "$made" > /dev/null || :
    done
    rm -rf "$work"
    exit "$status"
}

before=$(images)
trap tidy EXIT
trap 'exit 1' HUP INT TERM
docker image inspect "$image" > /dev/null 2>&1 ||
    { [ "${STAND_INS:-}" != yes ] && timeout 180 docker pull --quiet "$image" > "$work/pull.log" 2>&1; } ||
    tests/containers/stand_ins.sh "$work" "$image"

proxies=''
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || proxies="$proxies --env $name"
done
# shellcheck disable=SC2086 # options
git ls-files -z | tar --create --null --files-from=- | docker run --rm --interactive $proxies --env OMP_NUM_THREADS=1 "$image" \
    sh -euc '
    mkdir /house && cd /house && tar --extract
    python --version
    python -m venv /venv
    /venv/bin/pip install --quiet --require-hashes --requirement requirements-dev.lock
    /venv/bin/pip install --quiet --no-deps --no-build-isolation --editable .
    exec /venv/bin/python -m pytest -p no:cacheprovider -q "$@"' other-python "$@"
