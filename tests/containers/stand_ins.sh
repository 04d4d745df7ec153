#!/bin/sh
# Make stand-ins for the images that the composed house is built on, under the same names and with the same users, from
# Debian's packages: for machines that can install packages and cannot pull images.
#
#   stand_ins.sh WORK_FOLDER IMAGE...
#
# Where packages come from is read from this machine when it runs (apt's sources and proxy, pip's settings, certificates
# that it trusts); none of it is kept. The versions are Debian's, not those of the names: it shows that the house stands
# up, not that it stands up on those versions.
set -eu

work=$1
shift

# suite IMAGE: the Debian that a stand-in is made from
suite() {
    case $1 in *-trixie) echo trixie ;; *) echo bookworm ;; esac
}

say() {
    echo "stand-ins: $*"
}

give_up() {
    say "$2" >&2
    [ ! -s "$work/$1.log" ] || tail -n 20 "$work/$1.log" >&2
    exit 1
}

# archive: the address of a Debian archive that this machine uses
archive() {
    # shellcheck disable=SC2016 # apt reads these, not the shell
    apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI) $(CODENAME)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "main" && $4 !~ /security/ { print $3; exit }'
}

# What makes a small Debian.
ensure_debootstrap() {
    command -v debootstrap > /dev/null && return
    say "debootstrap is installed"
    { apt-get update && apt-get install --yes --no-install-recommends debootstrap; } > "$work/apt.log" 2>&1 ||
        give_up apt "debootstrap cannot be installed"
}

# pip_settings: what this machine tells pip about where packages are, as a pip.conf
pip_settings() {
    echo "[global]"
    { python3 -m pip config list 2> /dev/null || :; } |
        sed -n "s/^\(global\|:env:\)\.\([a-z-]*\)='\(.*\)'\$/\2 = \3/p" |
        awk '$1 ~ /^(index-url|extra-index-url|trusted-host|proxy|timeout|default-timeout)$/ { last[$1] = $0 }
             END { for (key in last) print last[key] }'
    [ ! -s "$work/ca.crt" ] || echo "cert = /etc/ssl/certs/ca-certificates.crt"
}

# settings ROOT SUITE: give a small Debian what this machine knows of where packages come from
settings() {
    for kind in "$2" "$2-backports"; do
        echo "deb $mirror $kind main"
    done > "$1/etc/apt/sources.list"
    apt-config dump | grep -E '^Acquire::(https?::|Check-|Retries)' > "$1/etc/apt/apt.conf.d/90machine" || :
    printf 'APT::Install-Recommends "false";\nAcquire::Languages "none";\n' >> "$1/etc/apt/apt.conf.d/90machine"
    # No service is started in an image.
    printf '#!/bin/sh\nexit 101\n' > "$1/usr/sbin/policy-rc.d"
    chmod 0755 "$1/usr/sbin/policy-rc.d"
    cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$work/ca.crt" 2> /dev/null || : > "$work/ca.crt"
    [ ! -s "$work/ca.crt" ] || cp "$work/ca.crt" "$1/etc/ssl/certs/ca-certificates.crt"
    pip_settings > "$1/etc/pip.conf"
}

# make_base SUITE
make_base() {
    mirror=$(archive)
    [ -n "$mirror" ] || give_up none "this machine has no Debian archive to make images from"
    ensure_debootstrap
    say "a small Debian ($1)"
    debootstrap --variant=minbase --include=ca-certificates "$1" "$work/root" "$mirror" \
        > "$work/debootstrap.log" 2>&1 || give_up debootstrap "no small Debian could be made"
    settings "$work/root" "$1"
    (cd "$work/root" && rm -rf var/cache/apt/archives/*.deb var/lib/apt/lists/* usr/share/doc usr/share/man usr/share/locale)
    tar -C "$work/root" --create --exclude='./dev/*' . | docker import --change 'CMD ["/bin/sh"]' - "parsimony-stand-in:$1" > /dev/null
    rm -rf "$work/root"
}

# recipe IMAGE: the Dockerfile of a stand-in
recipe() {
    echo "FROM parsimony-stand-in:$(suite "$1")"
    case $1 in
        python:3.*-slim-*)
            version=${1#python:} version=${version%%-*}
            # Debian marks its Python as one that pip must leave alone; the real image's Python is not Debian's.
            cat << END
ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
RUN apt-get update && apt-get install --yes python$version python3-pip python3-venv && apt-get clean \\
    && rm -rf /var/lib/apt/lists/* /usr/lib/python3*/EXTERNALLY-MANAGED \\
    && ln -s /usr/bin/python$version /usr/local/bin/python && ln -s /usr/bin/python$version /usr/local/bin/python3
CMD ["python3"]
END
            ;;
        valkey/valkey:*)
            cat << 'END'
RUN groupadd --system --gid 999 valkey && useradd --system --uid 999 --gid 999 --home-dir /data valkey \
    && apt-get update && { apt-get install --yes --target-release bookworm-backports valkey-server valkey-tools \
      || { apt-get install --yes redis-server redis-tools \
           && ln -s /usr/bin/redis-server /usr/local/bin/valkey-server \
           && ln -s /usr/bin/redis-cli /usr/local/bin/valkey-cli; }; } \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /etc/valkey /etc/redis \
    && install --directory --owner=999 --group=999 /data
WORKDIR /data
VOLUME /data
EXPOSE 6379
CMD ["valkey-server"]
END
            ;;
        haproxy:*)
            cat << 'END'
RUN apt-get update && apt-get install --yes haproxy && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && groupmod --gid 99 haproxy && usermod --uid 99 --gid 99 haproxy
USER 99
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
END
            ;;
        prom/prometheus:*)
            cat << 'END'
RUN apt-get update && apt-get install --yes prometheus && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner=65534 --group=65534 /prometheus
USER nobody
WORKDIR /prometheus
VOLUME /prometheus
EXPOSE 9090
ENTRYPOINT ["/usr/bin/prometheus"]
END
            ;;
        *) give_up none "Debian has nothing that could stand in for $1" ;;
    esac
}

mkdir -p "$work/empty"
for image; do
    docker image inspect "parsimony-stand-in:$(suite "$image")" > /dev/null 2>&1 || make_base "$(suite "$image")"
    say "$image"
    recipe "$image" > "$work/Dockerfile"
    docker build --quiet --tag "$image" --file "$work/Dockerfile" "$work/empty" > "$work/build.log" 2>&1 ||
        give_up build "no stand-in for $image could be made"
done
