#!/usr/bin/env bats
# What the log says, asked of `outlast crash`, and what must not keep or mislead the job
# shellcheck disable=SC2016,SC2030,SC2031 # text of the stand-in; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_HOSTS=(n1.site n2.site) OUTLAST_NODE_LIST=n1.site,n2.site OUTLAST_LAUNCH_CODE=1
  echo 'something' >"$OUTLAST_LOG"
  mkdir -p "$OUTLAST_RUN_DIR/tool/1.0/outlast"
}

# Instead of Python: does TEXT, with Python's arguments.
python() {
  printf '#!/bin/bash\n%s\n' "$1" >"$BATS_TEST_TMPDIR/python"
  chmod +x "$BATS_TEST_TMPDIR/python"
  OUTLAST_PYTHON=$BATS_TEST_TMPDIR/python
}
answers() { python "cat <<'END'
$(printf '%s\n' "$@")
END"; }
ecc() {
  answers 'pattern gpu_ecc' 'scope hardware' 'persistence transient' 'action retry-exclude' "confidence ${1:-0.90}" \
    'fingerprint 434e28548bfc' "blame ${2:-n2}" 'line 17' 'text [rank17]: uncorrectable ECC error' 'why it says so'
}

@test "verdict: what the log says, with the hosts under the names that the scheduler knows" {
  ecc
  status_of ol_verdict
  [ "$status" = 0 ]
  [ "$OUTLAST_PATTERN $OUTLAST_SCOPE $OUTLAST_PERSISTENCE $OUTLAST_ACTION" = 'gpu_ecc hardware transient retry-exclude' ]
  [ "$OUTLAST_FINGERPRINT" = log:gpu_ecc:434e28548bfc ]
  [ "${OUTLAST_BLAME[*]} $OUTLAST_BLAME_WHY" = 'n2.site gpu_ecc' ]
  [ "$OUTLAST_VERDICT_LINE $OUTLAST_VERDICT_WHY" = '17 it says so' ]
  [ "$(ol_verdict_told)" = 'gpu_ecc (hardware, transient): [rank17]: uncorrectable ECC error' ]
}

@test "verdict: the parser is told of hosts, ranks, scheduler and code" {
  python 'echo "$@" >'"$BATS_TEST_TMPDIR/words"'; cat "$7" >'"$BATS_TEST_TMPDIR/hosts"
  OUTLAST_LAUNCH_CODE=139
  status_of ol_verdict 2>/dev/null
  run -0 cat "$BATS_TEST_TMPDIR/words"
  [ "$output" = "-m outlast crash $OUTLAST_LOG --words --scheduler slurm --hosts $OUTLAST_STATE/verdict.hosts --ranks-per-node 2 --exit-code 139" ]
}

@test "verdict: the run's own patterns are tried first, and left out where they are no good" {
  OUTLAST_CRASH_PATTERNS=/home/ada/mine.toml
  echo x >"$OUTLAST_RUN_DIR/patterns.toml"
  python 'echo "${@: -2}" >>'"$BATS_TEST_TMPDIR/words"'; exit 2'
  status_of ol_verdict 2>/dev/null
  [ "$(cat "$BATS_TEST_TMPDIR/words")" = "--patterns $OUTLAST_RUN_DIR/patterns.toml"$'\n''--exit-code 1' ]
  rm "$OUTLAST_RUN_DIR/patterns.toml"
  status_of ol_verdict 2>/dev/null
  [ "$(tail -n +3 "$BATS_TEST_TMPDIR/words")" = '--exit-code 1' ]
}

@test "verdict: hosts that are not ours are not blamed, and a guess blames nobody" {
  ecc 0.90 'n99 $(id)'
  status_of ol_verdict
  [ "${#OUTLAST_BLAME[@]}" = 0 ]
  ecc 0.60
  status_of ol_verdict
  [ "${#OUTLAST_BLAME[@]}" = 0 ]
  run -1 ol_verdict_is_sure
  [[ $(ol_verdict_told) == *'not sure'* ]]
}

@test "verdict: a host that is only where it began is not left out" {
  answers 'pattern host_oom' 'scope software' 'persistence unknown' 'action retry' 'confidence 0.90' 'fingerprint ab' 'blame n2'
  status_of ol_verdict
  [ "${#OUTLAST_BLAME[@]} ${OUTLAST_SUSPECTS[*]}" = '0 n2.site' ]
}

@test "verdict: what the log does not tell leaves the fingerprint of how the first rank died" {
  OUTLAST_FINGERPRINT='end:code 3'
  answers 'pattern unknown' 'scope unknown' 'persistence unknown' 'action retry' 'confidence 0.30' 'fingerprint ab'
  status_of ol_verdict
  [ "$status $OUTLAST_FINGERPRINT" = '0 end:code 3' ]
}

@test "verdict: no answer, or one that makes no sense, is a warning, and nothing is known" {
  local text
  for text in 'exit 1' 'echo "pattern $(id)"; echo scope x' 'kill -KILL $$' ':'; do
    python "$text"
    OUTLAST_FINGERPRINT='end:code 3' OUTLAST_BLAME=(old)
    status_of ol_verdict 2>"$BATS_TEST_TMPDIR/err"
    [ "$status" = 1 ]
    [ "$OUTLAST_PATTERN$OUTLAST_SCOPE ${#OUTLAST_BLAME[@]} $OUTLAST_FINGERPRINT" = ' 0 end:code 3' ]
    grep -q 'what the launcher says counts' "$BATS_TEST_TMPDIR/err"
  done
}

@test "verdict: it takes a minute at most, a quarter of what is left, and nothing after TERM" {
  printf '%s\n' "$(($(now) + 3600))" >"$OUTLAST_STATE/end_time"
  [ "$(_ol_verdict_limit_s)" = 60 ]
  printf '%s\n' "$(($(now) + 100))" >"$OUTLAST_STATE/end_time"
  (($(_ol_verdict_limit_s) <= 25))
  touch "$OUTLAST_STATE/term"
  [ "$(_ol_verdict_limit_s)" = 0 ]
}

@test "verdict: one that hangs is given up when TERM comes" {
  python 'touch '"$OUTLAST_STATE/term"'; exec sleep 60'
  status_of ol_verdict
  [ "$status" = 1 ]
}

@test "verdict: an attempt that ends before the tools are there waits for them" {
  ecc
  rm -r "$OUTLAST_RUN_DIR/tool"
  {
    sleep 1
    mkdir -p "$OUTLAST_RUN_DIR/tool/1.0/outlast"
  } &
  OUTLAST_TOOL_PID=$!
  ends_with_the_test "$!"
  status_of ol_verdict
  [ "$status" = 0 ]
}
