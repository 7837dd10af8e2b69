# shellcheck shell=bash
# tests/bash/helper.bash - what all bats files load

bats_require_minimum_version 1.5.0
ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
