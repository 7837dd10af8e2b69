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

# NAME WORD...: a process of this launch's, which notes USR1 under its name and goes on.
noting() {
  local name=$1
  shift
  OUTLAST_TOKEN=t "$@" >"$BATS_TEST_TMPDIR/$name" 2>&1 &
  ends_with_the_test "$!"
  until_true grep -q ready "$BATS_TEST_TMPDIR/$name"
}

@test "pbs_signal_launch: a wish to save goes to the shims, not to the launcher, to trainers, or to another launch" {
  local text='ol_shim () { trap "echo USR1" USR1; echo ready; while :; do sleep 0.05; done; }; ol_shim'
  # shellcheck disable=SC2317 # called by ol_sched_signal_launch
  ol_sched_on_each() { shift 2 && "$@"; }
  # shellcheck disable=SC2034 # read by ol_sched_signal_launch
  OUTLAST_TOKEN=t OUTLAST_NODE_LIST=a
  noting shim bash -c "$text" outlast-rank trainer
  noting launcher bash -c "x=1; $text" mpiexec bash -c "$text"
  noting trainer bash -c "x=1; $text"
  noting other env OUTLAST_TOKEN=u bash -c "$text" outlast-rank trainer
  ol_sched_signal_launch "$$" save
  until_true grep -q USR1 "$BATS_TEST_TMPDIR/shim"
  run ! grep -q USR1 "$BATS_TEST_TMPDIR/launcher" "$BATS_TEST_TMPDIR/trainer" "$BATS_TEST_TMPDIR/other"
}
