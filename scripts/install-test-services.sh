#!/usr/bin/env bash
# Installs the servers and the browser that the tests start, from Debian's (or Ubuntu's) packages, and Kafka's jars by
# Maven. Installs only what is missing, and starts nothing: each test file starts its own. Run as root, or as a user
# when the packages are there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(rabbitmq-server nats-server redis-server pgbouncer kcat)
# Ubuntu has it as a snap only.
grep -q '^ID=debian' /etc/os-release && packages+=(chromium fonts-dejavu-core)
# Java and Maven may have come in another way.
command -v java >/dev/null || packages+=(default-jre-headless)
command -v mvn >/dev/null || packages+=(maven)

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    if [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)" != installed ]; then
      missing+=("$package")
    fi
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "already installed: ${packages[*]}"
    return
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "run this as root: it installs ${missing[*]}" >&2
    exit 1
  fi

  # Debian starts a service as soon as its package is there, unless this file says no.
  policy=/usr/sbin/policy-rc.d
  if [ -e "$policy" ]; then mv "$policy" "$policy.before-waybill"; fi
  trap restore_policy EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"

  export DEBIAN_FRONTEND=noninteractive
  apt-get update --quiet
  apt-get install --quiet --yes --no-install-recommends "${missing[@]}"
}

restore_policy() {
  rm -f "$policy"
  if [ -e "$policy.before-waybill" ]; then mv "$policy.before-waybill" "$policy"; fi
}

# Into the folder where test/support/programs.ts looks. The copy of the pom comes last: it says that the jars are there.
install_kafka() {
  local pom=test/support/kafka/pom.xml
  local folder="${XDG_CACHE_HOME:-${HOME:-}/.cache}/waybill/kafka"
  if [ "$(id -u)" -eq 0 ]; then folder=/var/cache/waybill/kafka; fi
  if cmp --silent "$pom" "$folder/pom.xml"; then
    echo "already there: $folder"
    return
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  mvn --batch-mode --quiet --file "$pom" dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory="$folder"
  cp "$pom" "$folder/pom.xml"
  echo "fetched Kafka's jars into $folder"
}

install_packages
install_kafka
