#!/bin/sh
# Lists package, version and licence of everything that requirements.lock installs on this platform, from its metadata.
set -eu
cd "$(dirname "$0")/.."
bin=${BIN:-.venv/bin}
test -x "$bin/pip-licenses" || { echo "there is no $bin/pip-licenses; run: make install" >&2; exit 1; }
packages=$(grep -v "sys_platform == 'win32'" requirements.lock | sed -nE 's/^([A-Za-z0-9._-]+)==.*/\1/p' | sort -u)
cat <<'HEAD'
# Licences

What `requirements.lock` installs on Linux with Python 3.11, as its metadata says. Made by `make licences`.

HEAD
# The metadata of skops names no licence; its licence file is that of MIT.
# shellcheck disable=SC2086
"$bin/pip-licenses" --from=mixed --format=markdown --with-system --packages $packages | sed -E '/^\| skops /s/UNKNOWN/MIT    /'
