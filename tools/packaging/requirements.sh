#!/bin/sh
# Compile requirements/*.in, and what pyproject.toml asks for, into files that pin every package by
# version and hash, for all platforms and for each Python from 3.11 on. They record no index address.
set -eu
cd "$(dirname "$0")/../.."

uv=$(command -v uv || echo .venv/bin/uv)
if ! "$uv" --version >/dev/null 2>&1; then
  echo "pinning needs uv: pip install uv" >&2
  exit 1
fi

pin() {
  name=$1
  shift
  echo "pinning requirements/$name.txt"
  "$uv" pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 \
    --no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements" \
    --output-file "requirements/$name.txt" "requirements/$name.in" "$@"
}

pin build
pin dev pyproject.toml --extra arrow --extra avro --extra celery --extra cluster --extra compression --extra console \
  --extra delta --extra fast --extra grpc --extra iceberg --extra otel --extra pipelines \
  --extra postgres --extra protobuf --extra spark --extra taskiq --extra tls \
  -c requirements/build.txt
pin server pyproject.toml --extra cluster --extra compression --extra console --extra fast --extra grpc \
  --extra tls -c requirements/dev.txt
pin demo --no-deps
pin java
pin node
pin clients
pin airflow
pin flower --no-deps

if grep -nE '://|^--(index|extra|find|trusted)' requirements/*.txt; then
  echo "a compiled file records an address" >&2
  exit 1
fi
