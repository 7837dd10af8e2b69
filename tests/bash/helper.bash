# shellcheck shell=bash
# tests/bash/helper.bash - what all bats files load

bats_require_minimum_version 1.5.0
ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# Look until CALL is true; a test fails here, not by its own clock. Two minutes are for a machine that is busy.
until_true() {
  local until_s=$((SECONDS + 120))
  while ((SECONDS < until_s)); do
    ! "$@" || return 0
    sleep 0.05
  done
  printf 'never true: %s\n' "$*" >&2
  return 1
}
