#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text for a shell of its own; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  _ol_courier_nap() { ol_bounded_nap 0.05; } # the helpers look around all the time
  owns_the_run
  OUTLAST_GENERATION_MINE=1 OUTLAST_NEXT_ID='' OUTLAST_DELAY_S=0
  OUTLAST_PYTHON=false OUTLAST_COURIER_S=1 OUTLAST_SIDECAR_S=1
  cp "$BATS_TEST_FILENAME" "$OUTLAST_STATE/job.sh"
  printf 'ended 1 0\n' >"$OUTLAST_STATE/ranks"
  exec {OUTLAST_OUT_FD}>>"$BATS_TEST_TMPDIR/out" # the scheduler's output file
}

settles() { # CLASS THEN
  OUTLAST_CLASS=$1 OUTLAST_THEN=$2
  status_of ol_courier_start
  ends_with_the_test "$OUTLAST_COURIER_PID"
  ends_with_the_test "$OUTLAST_SIDECAR_PID"
  status_of ol_settle 2>>"$OUTLAST_STATE/job.log"
}
says() { printf 'state=%s verdict=%s restarts=0\n' "$1" "$2" >"$SCHED/state.7"; }
in_ledger() { grep -q "\"event\":\"$1\"" "$OUTLAST_RUN_DIR/events.jsonl"; }

@test "settle: the last checkpoint is durable, ledger and logs are there, the run is let go, the node is clean" {
  checkpoint 40
  ol_ledger_add ended class=walltime
  settles walltime submit
  [ -e "$OUTLAST_RUN_DIR/checkpoints/checkpoint-40/MANIFEST.json" ]
  in_ledger ended && in_ledger checkpoint_durable
  [ -s "$OUTLAST_RUN_DIR/logs/7.0.log" ]
  [ -e "$OUTLAST_RUN_DIR/lease/000003.end" ]
  [ ! -e "$OUTLAST_LOCAL" ]
  [ "$OUTLAST_EXIT" = 0 ]
}

@test "settle: the node is clean though somebody still writes there when his turn to go has come" {
  checkpoint 40
  rm() {
    if [[ " $* " == *" $OUTLAST_STATE "* && ! -e $SCHED/wrote ]]; then
      touch "$SCHED/wrote" "$OUTLAST_STATE/late"
      return 1
    fi
    command rm "$@"
  }
  settles walltime submit
  [ -e "$SCHED/wrote" ]
  [ ! -e "$OUTLAST_LOCAL" ]
}

@test "settle: what the trainer wrote beside its checkpoints goes to the run's output" {
  checkpoint 40
  printf 'x' >"$OUTLAST_CKPT_DIR/final model.bin"
  mkdir "$OUTLAST_CKPT_DIR/runs"
  settles walltime submit
  [ "$(entries "$OUTLAST_RUN_DIR/output")" = "final model.bin runs" ]
}

@test "settle: a finished run is marked once its last checkpoint is durable" {
  checkpoint 700
  OUTLAST_STEP=700
  settles "done" finish
  [ -e "$OUTLAST_RUN_DIR/finished" ]
  in_ledger finished
}

@test "settle: a run whose last checkpoint is not durable is not finished: a next job follows" {
  checkpoint 700
  OUTLAST_STARTED_S=$(($(now) - 3600)) # no time is left
  ol_checkpoint_keep() { return 1; }
  _ol_settle_left() { echo 1; }
  settles "done" finish
  [ ! -e "$OUTLAST_RUN_DIR/finished" ]
  [ "$OUTLAST_THEN" = submit ]
  told 'submit .*'
}

@test "settle: not even then does a run without a chain get a next job" {
  OUTLAST_CHAIN=0
  checkpoint 700
  OUTLAST_STARTED_S=$(($(now) - 3600))
  ol_checkpoint_keep() { return 1; }
  _ol_settle_left() { echo 1; }
  settles "done" finish
  [ ! -e "$OUTLAST_RUN_DIR/finished" ]
  [ ! -s "$SCHED/told" ]
}

@test "settle: somebody who cancels the job while it drains cancels its successor too" {
  OUTLAST_NEXT_ID=9
  printf 'state=pending verdict=none restarts=0\n' >"$SCHED/state.9"
  says ending cancelled
  touch "$OUTLAST_STATE/term"
  settles walltime submit
  told 'cancel 9'
  [ "$OUTLAST_CLASS" = cancelled ]
}

@test "settle: the time limit that comes while the job drains takes nobody's successor" {
  OUTLAST_NEXT_ID=9
  printf 'state=pending verdict=none restarts=0\n' >"$SCHED/state.9"
  says ending timelimit
  touch "$OUTLAST_STATE/term"
  settles walltime submit
  [ ! -s "$SCHED/told" ]
}

@test "settle: a held run is a job that failed, one that a person stopped is not" {
  settles early_exit hold
  [ "$OUTLAST_EXIT" = 1 ]
}

@test "settle: a run that a person stopped ends with 0" {
  settles stopped hold
  [ "$OUTLAST_EXIT" = 0 ]
}

@test "settle: a job that leaves before it had a courier still says why" {
  OUTLAST_GENERATION_MINE='' OUTLAST_CLASS='' OUTLAST_ATTEMPT=0
  status_of ol_decide_leave 'the run is owned by job 6' 2>>"$OUTLAST_STATE/job.log"
  status_of ol_settle 2>>"$OUTLAST_STATE/job.log"
  in_ledger left
  grep -q 'owned by job 6' "$OUTLAST_RUN_DIR/logs/7.0.log"
  [ ! -e "$OUTLAST_RUN_DIR/lease/000003.end" ]
}

@test "settle: the scheduler's output file ends with how the job ended" {
  printf '10:00:00 outlast: ended: walltime (our deadline)\n' >>"$OUTLAST_STATE/job.log"
  settles walltime submit
  grep -q 'ended: walltime' "$BATS_TEST_TMPDIR/out"
}

@test "settle: a shared file system that is away costs the reports, not the end" {
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  OUTLAST_STARTED_S=$(($(now) - 3600))
  settles walltime submit
  [ "$status" = 0 ]
  [ ! -e "$OUTLAST_LOCAL" ]
}

@test "settle: the job's folder goes from the other nodes as well, unless nothing can be started there" {
  OUTLAST_HOSTS=(n1 n2 n3)
  ol_sched_on_each() { printf '%s\n' "$2 ${*:3}" >>"$SCHED/told"; }
  settles walltime submit
  told "n2,n3 rm -rf $OUTLAST_LOCAL"
}

@test "settle: after TERM nothing is started on other nodes" {
  OUTLAST_HOSTS=(n1 n2 n3)
  ol_sched_on_each() { printf '%s\n' "$2 ${*:3}" >>"$SCHED/told"; }
  touch "$OUTLAST_STATE/term"
  settles cancelled stop
  [ ! -s "$SCHED/told" ]
}

# ---- an exit without a decision

# A script whose main breaks at TEXT, with the traps of a rendered one.
breaks() {
  (
    set +e
    trap ol_settle_unexpected EXIT
    eval "$1"
  )
}

@test "settle_unexpected: decides by durable progress, and the ledger has the class internal" {
  echo 40 >"$OUTLAST_STATE/durable_step"
  run -0 breaks 'exit 3'
  told 'submit .*'
  grep -q '"class":"internal","evidence":"the script ended without a decision (status 3)"' "$OUTLAST_RUN_DIR/events.jsonl"
}

@test "settle_unexpected: without progress it holds" {
  run -1 breaks 'exit 3'
  [ -s "$OUTLAST_RUN_DIR/control/hold" ]
  [ ! -s "$SCHED/told" ]
}

@test "settle_unexpected: an unset variable is such an exit" {
  run breaks 'echo "$no_such_variable"'
  grep -q '"class":"internal"' "$OUTLAST_RUN_DIR/events.jsonl"
}

@test "settle_unexpected: the ranks are killed first" {
  OUTLAST_LAUNCH_PID=1
  run breaks 'exit 3'
  [ "$(head -n 1 "$SCHED/told")" = kill ]
}

@test "settle_unexpected: a job that does not own the run decides nothing about it" {
  OUTLAST_GENERATION_MINE=''
  run breaks 'exit 3'
  [ ! -s "$SCHED/told" ]
  [ ! -e "$OUTLAST_RUN_DIR/control/hold" ]
}

@test "settle_unexpected: after a decision it only settles" {
  OUTLAST_CLASS=walltime OUTLAST_THEN=submit
  run -0 breaks 'exit 3'
  [ ! -s "$SCHED/told" ]
  [ ! -e "$OUTLAST_LOCAL" ]
}

@test "settle: a last checkpoint that cannot be told to be whole is not an end" {
  OUTLAST_CKPT_COMPLETE='' OUTLAST_DURABLE_AT_START=100
  mkdir -p "$OUTLAST_CKPT_DIR/${OUTLAST_CKPT_PREFIX}130"
  printf 'ended %(%s)T 139\n' -1 >"$OUTLAST_STATE/ranks"
  OUTLAST_THEN=finish OUTLAST_CHAIN=0
  status_of _ol_settle_finish
  [ "$OUTLAST_THEN" = stop ]
  [ ! -e "$OUTLAST_RUN_DIR/finished" ]
}

@test "settle: the job does not wait at its end for a mail that could not be sent before" {
  OUTLAST_MAIL_TO=bob@example.org
  ol_courier_carry() { :; }
  ol_py() { :; }
  ol_mail_finish() { printf '%s\n' "$1" >>"$BATS_TEST_TMPDIR/waited"; }
  status_of _ol_settle_report
  [ "$(cat "$BATS_TEST_TMPDIR/waited")" = 30 ]
  touch "$OUTLAST_STATE/mail_fails"
  status_of _ol_settle_report
  rm "$OUTLAST_STATE/mail_fails"
  touch "$OUTLAST_STATE/term"
  status_of _ol_settle_report
  [ "$(cat "$BATS_TEST_TMPDIR/waited")" = 30 ]
}
