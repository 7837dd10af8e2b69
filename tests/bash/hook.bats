#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # words that stay text; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  has_no_site
  ol_bounded_open
  OUTLAST_RESUME='' OUTLAST_RESUME_STEP='' OUTLAST_ROOT=/opt
}

starts() {
  status_of ol_hook_start 2>>"$OUTLAST_STATE/job.log"
  ends_with_the_test "$OL_HOOK_PID"
}
has_event() { [[ -n $(event "$1") ]]; }
steps() { { grep '"event":"on_durable"' "$OUTLAST_STATE/events.jsonl" || true; } | sed -nE 's/.*"step":([0-9]+).*/\1/p' | paste -sd' '; }

@test "hook: without a command there is no process" {
  status_of ol_hook_start
  [ -z "${OL_HOOK_PID:-}" ]
  status_of ol_hook_finish 5
  status_of ol_hook_stop
}

@test "hook: the command gets path, step and a place for its score, in the trainer's environment; the ledger notes it" {
  durable 20
  OUTLAST_ON_DURABLE=(bash -c 'cat "$0/model.safetensors"; echo "$1 $LOADED $PWD $OUTLAST_STEP"; echo "0.5 acc" >"$2"; exit 3' '{checkpoint}' '{step} of {run}' '{score}')
  starts
  until_true has_event on_durable
  [[ $(event on_durable) == *'"step":20,"code":3,'*'"score":"0.5 acc"'* ]]
  [ "$(cat "$OUTLAST_LOCAL/on_durable.20.log")" = "weights of step 20"$'\n'"20 of demo yes $OUTLAST_PROJECT 20" ]
  local -A OL_COURIER_SENT=()
  ol_courier_log
  [ -s "$OUTLAST_RUN_DIR/logs/7.0.on_durable.20.log" ]
  [ ! -e "$OUTLAST_STATE/hook" ]
}

@test "hook: each second one, counted over jobs, and those of a job before" {
  past 6 checkpoint_durable step:=10
  durable 20
  OUTLAST_ON_DURABLE=(true) OUTLAST_ON_DURABLE_EVERY=2
  starts
  until_true has_event on_durable
  durable 40
  durable 60
  seen() { [[ $(steps) == "20 60" ]]; }
  until_true seen
}

@test "hook: a checkpoint whose event follows its number a moment later is not passed over" {
  durable 20
  mv "$OUTLAST_STATE/events.jsonl" "$SCHED/later"
  OUTLAST_ON_DURABLE=(true)
  ol_bounded_nap() { touch "$SCHED/looked" && sleep 0.5; }
  starts
  until_true test -e "$SCHED/looked"
  cat "$SCHED/later" >>"$OUTLAST_STATE/events.jsonl"
  until_true has_event on_durable
}

@test "hook: one that is too slow is ended" {
  durable 20
  OUTLAST_ON_DURABLE=(sleep 100) OUTLAST_ON_DURABLE_LIMIT_S=1
  starts
  until_true has_event on_durable
  [[ $(event on_durable) == *'"code":124'* ]]
}

@test "hook: while it runs its checkpoint stays, and when the job ends it is cut off for a later job" {
  durable 20
  OUTLAST_ON_DURABLE=(bash -c 'trap "" TERM; sleep 100') OUTLAST_CKPT_KEEP=1
  starts
  until_true test -s "$OUTLAST_STATE/hook"
  local step pid
  for step in 40 60 80; do durable "$step"; done
  status_of ol_retention_prune
  [ "$(find "$OUTLAST_RUN_DIR/checkpoints" -name 'checkpoint-*' -printf '%f\n' | sort | paste -sd' ')" = "checkpoint-20 checkpoint-60 checkpoint-80" ]
  read -r step pid <"$OUTLAST_STATE/hook"
  status_of ol_hook_stop
  gone() { ! kill -0 "$pid" 2>/dev/null; }
  until_true gone
  [ "$step$(steps)" = 20 ]
}

@test "hook: when training is over the last one has its turn" {
  durable 20
  OUTLAST_ON_DURABLE=(true) OUTLAST_ON_DURABLE_EVERY=9
  starts
  durable 40
  status_of ol_hook_finish 60
  [ "$(steps)" = 40 ]
  durable 60
  : >"$OUTLAST_STATE/term"
  status_of ol_hook_finish 60
  [ "$(steps)" = 40 ]
}

@test "hook: a score below its bound lets no further job start, and one that a person has seen does" {
  durable 20
  OUTLAST_ON_DURABLE=(bash -c 'echo 0.25 >"$0"' '{score}') OUTLAST_SCORE_MIN=0.35
  ol_mail_send() { printf '%s: %s\n' "$1" "$3" >>"$OUTLAST_STATE/mails"; }
  starts
  until_true test -s "$OUTLAST_STATE/mails"
  [ "$(head -n 1 "$OUTLAST_RUN_DIR/control/hold")" = "score 0.25 of step 20 is below 0.35 (checkpoint.score_min)" ]
  [ -s "$OUTLAST_STATE/hold" ]
  status_of ol_guard_may_start
  [ "$status" = 1 ]
  rm "$OUTLAST_RUN_DIR/control/hold"
  status_of ol_guard_may_start # a score that came after the last job
  [ "$status $OUTLAST_HOLD $OUTLAST_WHY" = "1 1 score 0.25 of step 20 is below 0.35 (checkpoint.score_min)" ]
  printf '{"t":%d,"run":"demo","job":"","restart":0,"attempt":0,"seq":9,"event":"resumed"}\n' "$(($(now) + 1))" >>"$OUTLAST_STATE/history.jsonl"
  status_of ol_guard_may_start
  [ "$status" = 0 ]
}

@test "hook_judge: bounds on both sides, signs and exponents; what is no number says nothing" {
  mkdir -p "$OUTLAST_RUN_DIR/scores"
  judged() { OUTLAST_SCORE_MIN=$1 OUTLAST_SCORE_MAX=$2 ol_hook_judge; }
  echo 2.5e0 >"$OUTLAST_RUN_DIR/scores/600"
  echo nan >"$OUTLAST_RUN_DIR/scores/700"
  echo -5 >"$OUTLAST_RUN_DIR/scores/x1"
  [ -z "$(judged '' '')" ]
  [ -z "$(judged -1 2.5)" ]
  [ "$(judged '' 2.4)" = "score 2.5e0 of step 600 is above 2.4 (checkpoint.score_max)" ]
  [ "$(judged 3 '')" = "score 2.5e0 of step 600 is below 3 (checkpoint.score_min)" ]
}

@test "hook: one that a TERM to all of the job has ended comes again in a later job" {
  durable 20
  OUTLAST_ON_DURABLE=(sleep 100)
  starts
  until_true test -s "$OUTLAST_STATE/hook"
  local pid _
  read -r _ pid <"$OUTLAST_STATE/hook"
  : >"$OUTLAST_STATE/term"
  kill -s TERM "$pid"
  until_true test ! -e "$OUTLAST_STATE/hook"
  status_of ol_hook_stop
  [ -z "$(steps)" ]
}
