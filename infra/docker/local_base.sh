#!/bin/sh
# Two base images where no registry is reached: assay-base:python and assay-base:gcc, from Debian's own packages.
# Needs root, debootstrap and an engine (DOCKER_HOST is honoured). The mirror is the one that this host's apt uses.
#
#   sh infra/docker/local_base.sh && echo "BASE_IMAGE=assay-base:python TOOLCHAIN_IMAGE=assay-base:gcc, for .env"
set -eu

RELEASE=${RELEASE:-bookworm}
DOCKER=${DOCKER:-docker}
command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "debootstrap needs root" >&2; exit 2; }
mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(RELEASE)' \
  | awk -v name="$RELEASE" '$2 == name || $3 == name { print $1; exit }')
[ -n "$mirror" ] || { echo "apt on this host knows no $RELEASE; set RELEASE to its own" >&2; exit 2; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
import() {
  rm -rf "$folder"/tree/var/cache/apt/archives/*.deb "$folder"/tree/var/lib/apt/lists/*
  tar -C "$folder/tree" -c . | "$DOCKER" import - "assay-base:$1" >/dev/null
}

echo "assay-base:python from $RELEASE" >&2
debootstrap --variant=minbase --include=python3,python3-venv "$RELEASE" "$folder/tree" "$mirror" >"$folder/log" 2>&1 \
  || { tail -5 "$folder/log" >&2; exit 1; }
import python
echo "assay-base:gcc" >&2
DEBIAN_FRONTEND=noninteractive chroot "$folder/tree" sh -c \
  'apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev' >"$folder/log" 2>&1 \
  || { tail -5 "$folder/log" >&2; exit 1; }
import gcc
