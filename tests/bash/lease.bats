#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

# Somebody took the run: lease GENERATION JOB [RESTART]
lease() { printf 'job=%s restart=%s host=n9\n' "$2" "${3:-0}" >"$OUTLAST_RUN_DIR/lease/$1"; }
runs() { printf 'state=running verdict=none restarts=0\n' >"$SCHED/state.$1"; }
ends() { printf 'state=%s verdict=%s restarts=0\n' "$2" "${3:-none}" >"$SCHED/state.$1"; }

setup() {
  a_job
  OUTLAST_GENERATION=''
  OUTLAST_LEASE_WAIT_S=2
  ol_run_pause() { return 0; } # no test waits for a holder
}

@test "lease_take: the first job of a run gets generation 1, and the file says whose it is" {
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000001" ]
  grep -qx 'job=7 restart=0 host=n1' "$OUTLAST_RUN_DIR/lease/000001"
}

@test "lease_take: generations go on where they were, past 8 and 9 too" {
  lease 000008 6
  touch "$OUTLAST_RUN_DIR/lease/000008.end"
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000009" ]
  touch "$OUTLAST_RUN_DIR/lease/000009.end"
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000010" ]
}

@test "lease_take: a running stranger keeps the run, and OUTLAST_WHY names it" {
  lease 000004 6
  runs 6
  status_of ol_lease_take
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"job 6"* ]]
  [ ! -e "$OUTLAST_RUN_DIR/lease/000005" ]
}

@test "lease_take: our own parent is waited for while it still runs" {
  lease 000004 6
  runs 6
  OUTLAST_PARENT=6
  ol_run_pause() { ends 6 ended ok; }
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000005" ]
}

@test "lease_take: anybody who is ending is waited for, not for ever" {
  lease 000004 6
  ends 6 ending
  status_of ol_lease_take
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"did not let go"* ]]
}

@test "lease_take: a holder that has ended, is unknown or waits in the queue is no owner" {
  lease 000001 6
  ends 6 ended failed
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000002" ]
  lease 000003 99
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000004" ]
  lease 000005 8
  ends 8 pending
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000006" ]
}

@test "lease_take: a scheduler that does not answer about the holder means unknown, and nothing is taken" {
  lease 000004 6
  touch "$SCHED/silent"
  status_of ol_lease_take
  [ "$status" = 2 ]
  [ ! -e "$OUTLAST_RUN_DIR/lease/000005" ]
}

@test "lease_take: a released lease is free, whatever the scheduler says" {
  lease 000004 6
  touch "$OUTLAST_RUN_DIR/lease/000004.end" "$SCHED/silent"
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000005" ]
}

@test "lease_take: this job, requeued, takes its own lease again; the copy left behind does not" {
  lease 000004 7 0
  OUTLAST_RESTART=1
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000005" ]
  OUTLAST_RESTART=0
  status_of ol_lease_take
  [ "$status" = 1 ]
}

@test "lease_take: of many at the same moment one gets the run" {
  local job
  ol_sched_state() { echo state=running verdict=none restarts=0; }
  for job in 11 12 13 14 15 16; do
    (
      OUTLAST_JOB_ID=$job
      ! ol_lease_take || echo "$job" >>"$BATS_TEST_TMPDIR/owners"
    ) &
  done
  wait
  [ "$(wc -l <"$BATS_TEST_TMPDIR/owners")" = 1 ]
  grep -q "^job=$(cat "$BATS_TEST_TMPDIR/owners") " "$OUTLAST_RUN_DIR/lease/000001"
}

@test "lease_take: no leftover of the attempts stays in the folder" {
  status_of ol_lease_take
  [ "$(ls -A "$OUTLAST_RUN_DIR/lease")" = 000001 ]
}

@test "lease_take: a folder that cannot be written is no answer, and nobody else's fault" {
  rmdir "$OUTLAST_RUN_DIR/lease"
  status_of ol_lease_take
  [ "$status" = 2 ]
}

@test "lease_take: a full file system is not another job that was faster" {
  ln() { return 1; }
  export -f ln
  status_of ol_lease_take
  [ "$status" = 2 ]
}

@test "lease_take: an answer that got lost on the way is no answer" {
  ol_shared_print() { :; }
  status_of ol_lease_take
  [ "$status" = 2 ]
}

@test "lease_is_lost: 0 with a newer owner, 1 without, 2 without an answer" {
  OUTLAST_GENERATION=000004
  lease 000004 7
  run -1 ol_lease_is_lost
  lease 000005 8
  run -0 ol_lease_is_lost
  rm -r "$OUTLAST_RUN_DIR/lease"
  run -2 ol_lease_is_lost
}

@test "lease_release: the next job need not ask the scheduler" {
  status_of ol_lease_take
  ol_lease_release
  touch "$SCHED/silent"
  OUTLAST_JOB_ID=8
  status_of ol_lease_take
  [ "$status $OUTLAST_GENERATION" = "0 000002" ]
}
