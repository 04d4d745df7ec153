#!/bin/sh
# Looks for known vulnerabilities in everything that is locked. Ends with 0 if none is known, with 1 if one is, and with 2
# if nothing was audited, because the service that knows them was not reached or does not know a package.
set -u
cd "$(dirname "$0")/.." || exit 2
bin=${BIN:-.venv/bin}
found=$("$bin/pip-audit" --strict --disable-pip --require-hashes --progress-spinner off --format json --desc off \
  --requirement requirements.lock --requirement requirements-dev.lock)
status=$?
if [ -z "$found" ]; then
  echo "audit: NOTHING WAS AUDITED: the vulnerability service was not reached, or does not know a package; see above" >&2
  exit 2
fi
printf '%s\n' "$found"
if [ "$status" -ne 0 ]; then
  echo "audit: there are known vulnerabilities, listed above under \"vulns\"" >&2
  exit 1
fi
echo "audit: no known vulnerabilities" >&2
