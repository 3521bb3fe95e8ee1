#!/usr/bin/env bash
# Installs the servers that the tests start, from Debian's (or Ubuntu's) packages. Run as root. Installs only what
# is missing, and starts nothing: each test file starts its own.
set -euo pipefail

packages=(rabbitmq-server nats-server redis-server pgbouncer)

missing=()
for package in "${packages[@]}"; do
  if [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)" != installed ]; then
    missing+=("$package")
  fi
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "already installed: ${packages[*]}"
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "run this as root: it installs ${missing[*]}" >&2
  exit 1
fi

# Debian starts a service as soon as its package is there, unless this file says no.
policy=/usr/sbin/policy-rc.d
restore_policy() {
  rm -f "$policy"
  if [ -e "$policy.before-waybill" ]; then mv "$policy.before-waybill" "$policy"; fi
}
if [ -e "$policy" ]; then mv "$policy" "$policy.before-waybill"; fi
trap restore_policy EXIT
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet
apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
