#!/bin/sh
# Start the composed house as docker-compose.yml describes it, try it from outside, do harm to its containers, and remove
# all that was made: containers, networks, volumes, and the images that were not there before.
#
#   run.sh [pytest options]
#
# It skips, and says so, where no engine runs. Images that cannot be pulled are made from Debian's packages
# (stand_ins.sh), which takes root and apt. Ports 8000, 8080 and 9090 of this machine must be free.
#
#   STAND_INS=yes       do not even try to pull
#   KEEP_IMAGES=yes     leave the images for the next run
set -eu
cd "$(dirname "$0")/../.."
COMPOSE_PROJECT_NAME=parsimony-compose-test
export COMPOSE_PROJECT_NAME

say() {
    echo "compose-test: $*"
}

skip() {
    say "SKIPPED: $1"
    exit 0
}

docker info > /dev/null 2>&1 || skip "no container engine runs here"
if docker compose version > /dev/null 2>&1; then
    compose="docker compose"
elif docker-compose version > /dev/null 2>&1; then
    compose="docker-compose"
else
    skip "neither \`docker compose\` nor \`docker-compose\` is here"
fi

work=$(mktemp -d)
# The settings of whoever runs this are not ours: the house is started with its defaults.
: > "$work/settings"
for setting in $(env | sed -n 's/^\(PARSIMONY_[A-Z_]*\)=.*/\1/p'); do
    unset "$setting"
done
unset COMPOSE_FILE COMPOSE_PROFILES MORE_SERVERS BUILD_WORKERS DASK_WORKERS
house="$compose --env-file $work/settings --profile monitoring --profile proxy"
# Without its builder plug-in, the client must be told to use the engine's own.
docker buildx version > /dev/null 2>&1 || export DOCKER_BUILDKIT=0

images() {
    docker image ls --all --quiet --no-trunc | sort -u
}

bottom() {
    docker image inspect --format '{{index .RootFS.Layers 0}}' "$1" 2> /dev/null || :
}

# remove_images: those that were made here, and the nameless ones that were left on the way to them
remove_images() {
    beneath=$(for image in $foreign; do bottom "$image"; done | grep . || echo none)
    # The image that was called parsimony before has its name back first: the upgrade's may be the same one, and go.
    if [ -n "$own" ]; then docker image tag "$own" parsimony; else brought="$brought parsimony"; fi
    for image in $brought parsimony-compose-test:before parsimony-compose-test:this parsimony-stand-in:bookworm; do
        docker image rm "$image" > /dev/null 2>&1 || :
    done
    while :; do
        removed=''
        for image in $(images | grep -vxF "${before:-none}"); do
            echo "$beneath" | grep -qxF "$(bottom "$image")" || continue
            [ "$(docker image inspect --format '{{len .RepoTags}}' "$image")" = 0 ] || continue
            docker image rm "$image" > /dev/null 2>&1 && removed=yes
        done
        [ -n "$removed" ] || break
    done
}

# remove_rest: what tests that were broken off have left beside the services of the compose file
remove_rest() {
    for kind in container network volume; do
        docker "$kind" ls --quiet $([ "$kind" != container ] || echo --all) --filter "name=^/?$COMPOSE_PROJECT_NAME" |
            while read -r left; do
                docker "$kind" rm --force --volumes "$left" > /dev/null 2>&1 || docker "$kind" rm "$left" > /dev/null 2>&1 || :
            done
    done
}

tidy() {
    status=$?
    trap - EXIT
    trap '' HUP INT TERM
    if [ "$status" != 0 ]; then
        $house ps || :
        $house logs --no-color --tail=40 || :
    fi
    $house down --volumes --remove-orphans --timeout 10 > "$work/down.log" 2>&1 || cat "$work/down.log" >&2
    remove_rest
    [ "${KEEP_IMAGES:-}" = yes ] || remove_images
    rm -rf "$work"
    exit "$status"
}

stages=$(sed -n 's/^FROM .* AS //p' Dockerfile)
foreign="$(sed -n 's/^FROM \([^ ]*\).*/\1/p' Dockerfile | grep -vxF "$stages" | sort -u)
$($house config | sed -n 's/^ *image: //p' | sort -u | grep -vx parsimony)"
before=$(images)
own=$(docker image inspect --format '{{.Id}}' parsimony 2> /dev/null || :)
brought=''
trap tidy EXIT
trap 'exit 1' HUP INT TERM
$house down --volumes --remove-orphans > /dev/null 2>&1 || : # what a run that was killed has left
remove_rest

# --- the images that others make
missing=''
for image in $foreign; do
    docker image inspect "$image" > /dev/null 2>&1 && continue
    if [ "${STAND_INS:-}" != yes ] && [ -z "$missing" ] && timeout 180 docker pull --quiet "$image" > "$work/pull.log" 2>&1; then
        brought="$brought $image"
    else
        missing="$missing $image"
    fi
done
services="redis server worker prometheus grafana"
case $missing in *grafana*)
    say "Grafana is left out: its image cannot be pulled, and Debian has no package of it"
    services=${services% grafana}
    missing=$(for image in $missing; do echo "$image"; done | grep -v grafana || :)
    ;;
esac
if [ -n "$missing" ]; then
    say "stand-ins are made, since they cannot be pulled: $(echo "$missing" | tr -s ' \n' '  ')"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
        skip "only root on a Debian can make stand-ins"
    fi
    brought="$brought $missing"
    # shellcheck disable=SC2086 # a list
    tests/containers/stand_ins.sh "$work" $missing
fi

# --- our own image
proxies=''
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || proxies="$proxies --build-arg $name"
done
began=$(date +%s)
# shellcheck disable=SC2086 # options
$house build $proxies server > "$work/build.log" 2>&1 || { tail -n 40 "$work/build.log" >&2; exit 1; }
say "image built in $(($(date +%s) - began)) s, $(($(docker image inspect --format '{{.Size}}' parsimony) / 1000000)) MB"

# What an upgrade begins with: the last commit that makes another image. Where what the image is made of is not committed
# yet, that is this one; else the one before the commit that changed any of it last.
made_of="Dockerfile requirements.lock pyproject.toml parsimony models solvers app"
# shellcheck disable=SC2086 # a list
commit=$(git diff --quiet HEAD -- $made_of && echo "$(git rev-list --max-count=1 HEAD -- $made_of)^" || echo HEAD)
if git rev-parse --quiet --verify "$commit" > /dev/null; then
    # With the modes of a checkout, so that the layer of the dependencies is the same.
    # shellcheck disable=SC2086 # options
    git -c tar.umask=0022 archive "$commit" | docker build $proxies --tag parsimony-compose-test:before - > "$work/build.log" 2>&1 ||
        { tail -n 40 "$work/build.log" >&2; exit 1; }
fi

# --- the house
seconds() {
    awk '{ print $1 }' /proc/uptime
}
decides() {
    curl --silent --fail --max-time 5 --output "$work/decision" --header 'Content-Type: application/json' --data \
        '{"classifiers": [{"name": "K1", "execution_time": 1.0, "success_probability": 1.0}]}' \
        http://127.0.0.1:8000/v1/cascades/solve
}
began=$(seconds)
# shellcheck disable=SC2086 # a list
$house up --detach $services > "$work/up.log" 2>&1 || { cat "$work/up.log" >&2; exit 1; }
tries=0
until decides; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || { say "no decision after $tries tries" >&2; exit 1; }
    sleep 0.2
done
say "first decision $(echo "$began $(seconds)" | awk '{ printf "%.1f", $2 - $1 }') s after \`up\`"

deploy/smoke.sh http://127.0.0.1:8000
docker stats --no-stream --format '{{.Name}}: {{.MemUsage}} at rest' | sed -n "s/^$COMPOSE_PROJECT_NAME/compose-test: /p"
COMPOSED_HOUSE="$house" .venv/bin/python -m pytest -p no:cacheprovider tests/containers "$@"
