#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  owns_the_run
  OUTLAST_COURIER_S=1 OUTLAST_SIDECAR_S=1
  declare -gA OL_COURIER_SENT=() # the courier's own, in a test of one round
}

begins() {
  status_of ol_courier_start
  ends_with_the_test "$OUTLAST_COURIER_PID"
  ends_with_the_test "$OUTLAST_SIDECAR_PID"
}
DURABLE() { printf '%s' "$OUTLAST_RUN_DIR/checkpoints/checkpoint-$1"; }

@test "courier_log: the job's log and each attempt's go to files of their own, bit by bit" {
  echo one >>"$OUTLAST_STATE/job.log"
  echo rank >>"$OUTLAST_LOCAL/attempt.2.log"
  ol_courier_log
  echo two >>"$OUTLAST_STATE/job.log"
  ol_courier_log
  ol_courier_log
  [ "$(paste -sd' ' "$OUTLAST_RUN_DIR/logs/7.0.log")" = "one two" ]
  [ "$(cat "$OUTLAST_RUN_DIR/logs/7.0.2.log")" = rank ]
}

@test "courier_log: after an append that broke off, the rest follows, nothing twice" {
  printf 'one two three' >"$OUTLAST_STATE/job.log"
  printf 'one t' >"$OUTLAST_RUN_DIR/logs/7.0.log"
  ol_courier_log
  [ "$(cat "$OUTLAST_RUN_DIR/logs/7.0.log")" = "one two three" ]
}

@test "courier_round: what people wish is seen; save is wished once, the others stay" {
  touch "$OUTLAST_RUN_DIR/control/"{stop,save,hold}
  ol_courier_round 2>/dev/null
  [ -e "$OUTLAST_STATE/stop" ] && [ -e "$OUTLAST_STATE/save" ] && [ -e "$OUTLAST_STATE/hold" ]
  [ "$(entries "$OUTLAST_RUN_DIR/control")" = "hold stop" ]
}

@test "courier_round: a newer lease means that the run is lost, our own and older ones do not" {
  touch "$OUTLAST_RUN_DIR/lease/000001" "$OUTLAST_RUN_DIR/lease/000003.end"
  ol_courier_round
  [ ! -e "$OUTLAST_STATE/lost" ]
  touch "$OUTLAST_RUN_DIR/lease/000004"
  ol_courier_round 2>/dev/null
  [ -e "$OUTLAST_STATE/lost" ]
}

@test "courier_round: a file system that does not answer loses nothing and takes nothing" {
  ol_ledger_add started
  echo one >"$OUTLAST_STATE/job.log"
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  status_of ol_courier_round 2>/dev/null
  [ ! -e "$OUTLAST_STATE/lost" ]
  mv "$OUTLAST_RUN_DIR.gone" "$OUTLAST_RUN_DIR"
  ol_courier_round
  grep -q started "$OUTLAST_RUN_DIR/events.jsonl"
  [ "$(cat "$OUTLAST_RUN_DIR/logs/7.0.log")" = one ]
}

@test "sidecar_round: the newest first, and what is older is not copied any more" {
  checkpoint 20
  checkpoint 100
  status_of ol_sidecar_round 2>/dev/null
  [ "$status" = 0 ]
  [ "$(entries "$OUTLAST_RUN_DIR/checkpoints")" = checkpoint-100 ]
}

@test "sidecar_round: what a node was given to resume from is not copied back" {
  checkpoint 600
  echo 600 >"$OUTLAST_STATE/durable_step"
  ol_sidecar_round
  [ -z "$(entries "$OUTLAST_RUN_DIR/checkpoints")" ]
}

@test "sidecar_round: when the newest does not go, the one before does, and something is left" {
  checkpoint 20
  checkpoint 40
  ol_checkpoint_keep() { (($1 == 20)) && echo 20 >>"$SCHED/kept"; }
  status_of ol_sidecar_round
  [ "$status" = 1 ]
  [ "$(cat "$SCHED/kept")" = 20 ]
}

@test "sidecar_round: a job that lost the run copies nothing more, and the watch hears of it" {
  checkpoint 20
  touch "$OUTLAST_RUN_DIR/lease/000004"
  status_of ol_sidecar_round 2>/dev/null
  [ "$status" = 0 ]
  [ -e "$OUTLAST_STATE/lost" ]
  [ ! -e "$(DURABLE 20)" ]
}

@test "sidecar_round: the ledger hears once of each new checkpoint on the node" {
  checkpoint 20
  status_of ol_sidecar_round 2>/dev/null
  status_of ol_sidecar_round 2>/dev/null
  [ "$(grep -c checkpoint_local "$OUTLAST_STATE/events.jsonl")" = 1 ]
  [[ $(cat "$OUTLAST_STATE/local_step") == "20 "* ]]
}

@test "courier_carry: what was written before it is on the shared file system after it" {
  OUTLAST_COURIER_S=60
  begins
  ol_ledger_add ended class=walltime
  status_of ol_courier_carry 100
  [ "$status" = 0 ]
  grep -q '"class":"walltime"' "$OUTLAST_RUN_DIR/events.jsonl"
}

@test "courier_hurry: each one counts, also when the one before was met" {
  OUTLAST_COURIER_S=600
  begins
  ol_ledger_add ended class=walltime_late
  ol_courier_hurry
  until_true grep -q ended "$OUTLAST_RUN_DIR/events.jsonl"
  until_true [ -e "$OUTLAST_STATE/carry_done" ]
  ol_ledger_add submitted successor=8
  ol_courier_hurry
  until_true grep -q submitted "$OUTLAST_RUN_DIR/events.jsonl"
}

@test "sidecar_drain: makes durable what nobody writes any more, without waiting for quiet" {
  OUTLAST_CKPT_QUIET_S=600 OUTLAST_SIDECAR_S=60
  begins 2>/dev/null
  checkpoint 40
  status_of ol_sidecar_drain 100
  [ "$status" = 0 ]
  [ -e "$(DURABLE 40)/MANIFEST.json" ]
  [ ! -e "$OUTLAST_STATE/drain_wanted" ]
}

@test "sidecar_drain: 1 when it could not be done in time, without turning in circles" {
  chmod a-w "$OUTLAST_RUN_DIR/checkpoints"
  ol_checkpoint_keep() { echo "$1" >>"$SCHED/tries" && return 1; }
  begins
  checkpoint 40
  until_true test -s "$SCHED/tries"
  status_of ol_sidecar_drain 2
  [ "$status" = 1 ]
  (($(wc -l <"$SCHED/tries") < 8))
}

@test "sidecar_drain: after one that took too long the sidecar naps again between its rounds" {
  OUTLAST_SIDECAR_S=60
  echo stale >"$OUTLAST_STATE/drain_done" # it was done when nobody waited any more
  ol_sidecar_round() { echo round >>"$SCHED/rounds"; }
  begins
  until_true test -s "$SCHED/rounds"
  sleep 0.5
  [ "$(wc -l <"$SCHED/rounds")" = 1 ]
}

@test "sidecar_drain: TERM that comes meanwhile ends the wait with 2; after it, the wait goes on" {
  ol_checkpoint_keep() { sleep 1 && return 1; }
  begins
  checkpoint 40
  (until_true test -s "$OUTLAST_STATE/drain_wanted" && touch "$OUTLAST_STATE/term") & # what is there before ends no wait
  status_of ol_sidecar_drain 30
  [ "$status" = 2 ]
  status_of ol_sidecar_drain 1
  [ "$status" = 1 ]
}

@test "sidecar_drain: a sidecar that is gone is started again" {
  begins 2>/dev/null
  checkpoint 40
  kill -KILL "$OUTLAST_SIDECAR_PID"
  status_of wait "$OUTLAST_SIDECAR_PID" 2>/dev/null
  status_of ol_sidecar_drain 100 2>/dev/null
  ends_with_the_test "$OUTLAST_SIDECAR_PID"
  [ "$status" = 0 ]
  [ -e "$(DURABLE 40)/MANIFEST.json" ]
}

@test "courier: TERM to the whole job does not end its helpers" {
  local pid
  begins
  for pid in "$OUTLAST_COURIER_PID" "$OUTLAST_SIDECAR_PID"; do
    until_true grep -q 'SigIgn:.*[4-7c-f][0-9a-f]\{3\}$' "/proc/$pid/status"
  done
  kill -TERM "$OUTLAST_COURIER_PID" "$OUTLAST_SIDECAR_PID"
  status_of ol_courier_carry 100
  [ "$status" = 0 ]
}

@test "courier_stop: ends both at once" {
  begins
  ol_courier_stop
  status_of wait "$OUTLAST_COURIER_PID"
  [ "$status" = 137 ]
  status_of wait "$OUTLAST_SIDECAR_PID"
  [ "$status" = 137 ]
}

@test "courier: both end when the job's folder is gone" {
  begins 2>/dev/null
  mv "$OUTLAST_STATE" "$OUTLAST_STATE.gone"
  status_of wait "$OUTLAST_COURIER_PID"
  status_of wait "$OUTLAST_SIDECAR_PID"
}
