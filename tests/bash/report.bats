#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text for a shell of its own; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_ATTEMPT=2 OUTLAST_LOG=$OUTLAST_LOCAL/attempt.2.log
  ol_py() { printf '%s\n' "$*" >>"$BATS_TEST_TMPDIR/asked"; }
}
asked() { cat "$BATS_TEST_TMPDIR/asked"; }

@test "report: the attempt's log is read where it lies, on the node" {
  printf 'x\n' >"$OUTLAST_LOG"
  status_of ol_report_finish 60
  [ "$(asked)" = "60 report $OUTLAST_RUN_DIR --write --log 7.0.2=$OUTLAST_LOG" ]
}

@test "report: without a log what the ledger knows is enough" {
  OUTLAST_LOG=''
  status_of ol_report_finish 5
  [ "$(asked)" = "5 report $OUTLAST_RUN_DIR --write" ]
}

@test "report: nobody waits while the job goes on, and the ledger goes out first" {
  ol_courier_carry() {
    until [[ -e $BATS_TEST_TMPDIR/go ]]; do ol_bounded_nap 0.05; done
    echo carried >>"$BATS_TEST_TMPDIR/asked"
  }
  ol_report_start
  ends_with_the_test "$!"
  [ ! -e "$BATS_TEST_TMPDIR/asked" ]
  touch "$BATS_TEST_TMPDIR/go"
  wait "$!"
  [[ $(asked) == carried$'\n'"60 report "* ]]
}
