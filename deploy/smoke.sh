#!/bin/sh
# Try a running Parsimony from outside, with nothing but curl: publish, decide, be refused, tidy up.
#
#   smoke.sh [BASE_URL] [API_KEY]      the key needs the role `build`; or set API_KEY in the environment,
#                                      where no list of processes shows it
#
# Exit 0 and one line for each step, or 1 and one line on standard error that names the step. It uses the names
# dataset `smoke` and artifact `cascade/smoke`, and no others.
set -eu

base=${1:-http://127.0.0.1:8000}
base=${base%/}
key=${2:-${API_KEY:-}}
build_limit_s=120

work=$(mktemp -d)
umask 077
: > "$work/key"
if [ -n "$key" ]; then
    printf 'Authorization: Bearer %s\n' "$key" > "$work/key"
fi
step=start
uploaded='' build='' published=''

# call METHOD PATH [curl options]: the status is printed, the reply is in $work/body and $work/head
call() {
    method=$1 path=$2
    shift 2
    : > "$work/body"
    curl --silent --show-error --max-time 60 --request "$method" --header @"$work/key" --dump-header "$work/head" \
        --output "$work/body" --write-out '%{http_code}' "$@" "$base$path" 2> "$work/error" || :
}

fail() {
    echo "smoke: FAILED at $step: $1" >&2
    exit 1
}

# expect STATUSES STATUS: fail, with the reply, unless the status is one of those wanted
expect() {
    for wanted in $1; do
        [ "$wanted" = "$2" ] && return
    done
    fail "wanted $1, got $2: $(cat "$work/error" "$work/body" | tr -s '\n\r' '  ' | head -c 300)"
}

passed() {
    echo "smoke: $step"
}

# field NAME PATTERN: the last value of that field in the reply, as far as the pattern reaches
field() {
    tr -d '\n' < "$work/body" | sed -n "s/.*\"$1\" *: *\"\{0,1\}\($2\).*/\1/p"
}

# What was made goes again, however this ends.
tidy() {
    status=$?
    trap - EXIT
    if [ -n "$published" ]; then
        call DELETE /v1/artifacts/cascade/smoke > /dev/null
    fi
    if [ -n "$build" ] && [ -z "$published" ]; then
        call DELETE "/v1/builds/$build" > /dev/null
    fi
    if [ -n "$uploaded" ]; then
        call DELETE /v1/datasets/smoke > /dev/null
    fi
    rm -rf "$work"
    exit "$status"
}
trap tidy EXIT
trap 'exit 1' HUP INT TERM

step="health"
expect 200 "$(call GET /health/live)"
expect 200 "$(call GET /health/ready)"
passed

# 400 items. `cheap` and `middle` are right whenever they are confident and guess otherwise; `best` errs on one item in
# a hundred. So a good cascade exists and every threshold can be found, with the same numbers on every machine.
step="upload"
awk 'BEGIN {
    seed = 7
    print "label,cheap,cheap_confidence,middle,middle_confidence,best"
    for (row = 1; row <= 400; row++) {
        label = draw() < 0.5
        cheap = draw(); middle = draw()
        printf "%s,%s,%.4f,%s,%.4f,%s\n", name(label), name(cheap < 0.4 ? draw() < 0.5 : label), cheap, \
            name(middle < 0.2 ? draw() < 0.5 : label), middle, name(row % 100 ? label : !label)
    }
}
function draw() { seed = (seed * 16807) % 2147483647; return seed / 2147483647 }
function name(class) { return class ? "yes" : "no" }' > "$work/trace.csv"
cat > "$work/spec.json" << 'END'
{"kind": "trace", "label": "label", "unit": "ms", "classifiers": [
 {"name": "cheap", "cost": 1.0, "prediction": "cheap", "confidence": "cheap_confidence"},
 {"name": "middle", "cost": 3.0, "prediction": "middle", "confidence": "middle_confidence"},
 {"name": "best", "cost": 10.0, "prediction": "best"}]}
END
expect "200 201" "$(call PUT /v1/datasets/smoke --form "spec=<$work/spec.json" \
    --form "table=@$work/trace.csv;type=text/csv")"
uploaded=yes
passed

step="build"
expect 202 "$(call POST /v1/builds --header 'Content-Type: application/json' --data \
    '{"kind": "cascade", "name": "smoke", "dataset": "smoke", "params": {"target_precision": 0.9}, "seed": 0}')"
build=$(tr -d '\r' < "$work/head" | sed -n 's/^[Ll]ocation: *//p')
build=${build##*/}
[ -n "$build" ] || fail "the reply names no Location"
waited=0
while :; do
    expect 200 "$(call GET "/v1/builds/$build")"
    state=$(field status '[a-z]*')
    case $state in
        succeeded) break ;;
        queued | running) ;;
        *) fail "build $build is $state: $(tr -s '\n\r' '  ' < "$work/body" | head -c 300)" ;;
    esac
    [ "$waited" -lt "$build_limit_s" ] || fail "build $build is still $state after $build_limit_s s: is a worker running?"
    waited=$((waited + 1))
    sleep 1
done
published=$(field version '[0-9]*')
[ -n "$published" ] || fail "build $build succeeded and names no version"
passed

# Every server process has a second to take up what was published.
step="decide"
waited=0
while :; do
    status=$(call GET '/v1/cascades/smoke/decision?deadline=20')
    [ "$status" = 200 ] && [ "$(field version '[0-9]*')" = "$published" ] && break
    [ "$waited" -lt 10 ] || break
    waited=$((waited + 1))
    sleep 1
done
expect 200 "$status"
[ "$(field version '[0-9]*')" = "$published" ] || fail "version $published is not the one that answers"
grep -q '"cascade" *: *\[ *"[^]]*"best" *\]' "$work/body" || fail "no cascade that ends with best: $(tr -s '\n\r' '  ' < "$work/body" | head -c 300)"
passed

step="refuse"
expect 422 "$(call POST /v1/cascades/solve --header 'Content-Type: application/json' --data \
    '{"classifiers": [{"name": "K1", "execution_time": NaN, "success_probability": 1.0}]}')"
grep -qi '^content-type: *application/problem+json' "$work/head" || fail "the refusal is no application/problem+json"
grep -q '"urn:parsimony:invalid-request"' "$work/body" || fail "the refusal has another code: $(tr -s '\n\r' '  ' < "$work/body" | head -c 300)"
passed

step="tidy"
expect "200 204" "$(call DELETE /v1/datasets/smoke)"
uploaded=''
passed
