#!/usr/bin/env bats
# lib/scheduler/pbs.sh: what it says to PBS and its launchers. What they answer is played in tests/lab.
load job

setup() {
  a_job
  # shellcheck source=lib/scheduler/pbs.sh
  source "$ROOT/lib/scheduler/pbs.sh"
  export STUB=$BATS_TEST_TMPDIR/stub
  mkdir "$STUB" "$BATS_TEST_TMPDIR/bin"
  ln -s "$ROOT/tests/stubs/stub" "$BATS_TEST_TMPDIR/bin/mpiexec"
  : >"$STUB/calls"
  PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

@test "pbs_launch: no launcher ends all ranks because one has failed" {
  local launcher option
  OUTLAST_LAUNCH_ARGS=()
  while read -r launcher option; do
    OUTLAST_LAUNCHER=$launcher
    (ol_sched_launch a,b 2 trainer)
    grep -q -- " $option .*trainer" "$STUB/calls"
    : >"$STUB/calls"
  done <<'END'
pals --no-abort-on-failure
mpich-ssh -disable-auto-cleanup
mpich-tmrsh -disable-auto-cleanup
END
}

@test "pbs_launch: a progress bar, which has no line ends, is not held back" {
  OUTLAST_LAUNCH_ARGS=() OUTLAST_LAUNCHER=pals
  (ol_sched_launch a,b 2 trainer)
  run ! grep -q -- line-buffer "$STUB/calls"
}
