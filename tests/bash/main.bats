#!/usr/bin/env bats
# The steps of a job's story that can be told without a launch.
# shellcheck disable=SC2030,SC2031 # a test is a subshell, and that is wanted
load job

setup() {
  a_job
  _ol_courier_nap() { ol_bounded_nap 0.05; } # the helpers look around all the time
  OUTLAST_GENERATION=000000 OUTLAST_ATTEMPT=0 OUTLAST_CKPT_DIR=$OUTLAST_LOCAL/checkpoints OUTLAST_WHY=''
  OUTLAST_ROOT=/nowhere OUTLAST_PYTHON=false OUTLAST_PYTHON_PATH=false OUTLAST_LEASE_WAIT_S=2
  OUTLAST_HOLD='' OUTLAST_PROJECT_DIR=''
  printf '#!/bin/bash\n' >"$OUTLAST_STATE/job.sh"
  ol_run_pause() { return 0; }
  chmod 750 "$OUTLAST_RUN_DIR"
}

opens() {
  status_of ol_main_open 2>>"$OUTLAST_STATE/job.log"
  local pid
  for pid in "${OUTLAST_COURIER_PID:-}" "${OUTLAST_SIDECAR_PID:-}" "${OUTLAST_TIMER_PID:-}"; do
    [[ -z $pid ]] || ends_with_the_test "$pid"
  done
}
# A checkpoint of the job before, made durable by it.
was_durable() { OUTLAST_GENERATION=000003 durable "$1" && touch "$OUTLAST_RUN_DIR/lease/000003.end"; }
running() { printf 'state=running verdict=none restarts=0\n' >"$SCHED/state.$1"; }

@test "main_open: a fresh run: the lease, the script, a start in the ledger, and go on" {
  opens
  [ "$status $OUTLAST_THEN" = "0 " ]
  [ "$OUTLAST_GENERATION $OUTLAST_GENERATION_MINE" = "000001 1" ]
  [ -e "$OUTLAST_RUN_DIR/job.sh" ]
  [[ $(event started) == *'"nodes":1,"durable_step":0,"generation":1,"version":"1.0"}' ]]
}

@test "main_open: a later job knows its parent and the durable step" {
  was_durable 600
  past 6 submitted successor=7
  mv "$OUTLAST_STATE/history.jsonl" "$OUTLAST_RUN_DIR/events.jsonl"
  opens
  [ "$OUTLAST_PARENT $OUTLAST_DURABLE_AT_START" = "6 600" ]
  [[ $(event started) == *'"durable_step":600,'* ]]
}

@test "main_open: a run that is another job's is left, and nothing of it is touched" {
  was_durable 600
  rm "$OUTLAST_RUN_DIR/lease/000003.end" "$OUTLAST_RUN_DIR/checkpoints/checkpoint-600/model.safetensors"
  sed -i s/job=7/job=6/ "$OUTLAST_RUN_DIR/lease/000003"
  running 6
  echo 'the owner'\''s' >"$OUTLAST_RUN_DIR/job.sh"
  opens
  [ "$OUTLAST_THEN" = leave ]
  [ -e "$OUTLAST_RUN_DIR/checkpoints/checkpoint-600" ]
  grep -q owner "$OUTLAST_RUN_DIR/job.sh"
  [ "$(event started)" = "" ]
}

@test "main_open: a finished run is left, a held one too, and no step of theirs is counted" {
  touch "$OUTLAST_RUN_DIR/finished"
  opens
  [ "$OUTLAST_THEN" = leave ]
  [ "$(event started)" = "" ]
}

@test "main_open: a run that is stuck is held" {
  local job
  for job in 4 5 6; do past "$job" started durable_step:=0; done
  mv "$OUTLAST_STATE/history.jsonl" "$OUTLAST_RUN_DIR/events.jsonl"
  opens
  [ "$OUTLAST_THEN" = hold ]
  [ -s "$OUTLAST_RUN_DIR/control/hold" ]
}

@test "main_open: a folder that cannot be used is left, and the log says so" {
  rm -r "$OUTLAST_RUN_DIR"
  touch "$OUTLAST_RUN_DIR"
  opens
  [ "$OUTLAST_THEN" = leave ]
  grep -q 'set runs_dir' "$OUTLAST_STATE/job.log"
}

@test "main_open: a file system that thaws is waited for" {
  OUTLAST_SHARED_LIMIT_S=1
  export FROZEN=$SCHED/frozen
  touch "$FROZEN"
  mkdir() {
    [[ ! -e $FROZEN ]] || sleep 60
    command mkdir "$@"
  }
  export -f mkdir
  ol_run_pause() { rm -f "$FROZEN" && OUTLAST_SHARED_LIMIT_S=20; }
  opens
  [ "$status $OUTLAST_THEN" = "0 " ]
}

@test "main_open: one that does not thaw in this job leaves the run to a later one" {
  OUTLAST_SHARED_LIMIT_S=1
  OUTLAST_STARTED_S=$(($(now) - 3299))
  mkdir() { sleep 60; }
  export -f mkdir
  opens
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "storage submit" ]
}

@test "main_open: TERM before the run was ours is nobody's end" {
  OUTLAST_SHARED_LIMIT_S=1
  mkdir() { sleep 60; }
  export -f mkdir
  ol_run_pause() { return 1; }
  touch "$OUTLAST_STATE/term"
  opens
  [ "$OUTLAST_THEN" = leave ]
  [ ! -s "$SCHED/told" ]
}

@test "main_open: a lease that nobody can judge leads to a later job, not to the end of the chain" {
  was_durable 600
  rm "$OUTLAST_RUN_DIR/lease/000003.end"
  sed -i s/job=7/job=6/ "$OUTLAST_RUN_DIR/lease/000003"
  ol_sched_state() { return 2; }
  opens
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "storage submit" ]
}

@test "main_open: checkpoints that do not answer are waited for: 0 would be a fresh start" {
  was_durable 600
  ol_checkpoint_durable() {
    [[ -e $SCHED/asked ]] || { touch "$SCHED/asked" && return 2; }
    echo "600 $OUTLAST_RUN_DIR/checkpoints/checkpoint-600"
  }
  opens
  [ "$OUTLAST_DURABLE_AT_START" = 600 ]
}

@test "main_open: durable checkpoints that are all broken or gone are no fresh start, until somebody resumes the run" {
  was_durable 600
  ol_ledger_flush
  rm "$OUTLAST_RUN_DIR/checkpoints/checkpoint-600/model.safetensors"
  opens
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "bad_checkpoint hold" ]
  [[ $OUTLAST_EVIDENCE == "checkpoint 600 was durable"* ]]
  [ "$(event started)" = "" ]
}

@test "main_open: somebody who resumes such a run wants the fresh start" {
  past 6 checkpoint_durable step:=600
  past '' resumed by=bob
  mv "$OUTLAST_STATE/history.jsonl" "$OUTLAST_RUN_DIR/events.jsonl"
  opens
  [ "$status $OUTLAST_DURABLE_AT_START" = "0 0" ]
}

@test "main_open: on shared storage a checkpoint that the job before could not mark any more is not lost" {
  OUTLAST_STORAGE=shared OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints
  checkpoint 600
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-650" # this one was being written
  opens
  [ "$OUTLAST_DURABLE_AT_START" = 600 ]
  ol_checkpoint_drop_torn
  [ "$(entries "$OUTLAST_CKPT_DIR")" = checkpoint-600 ]
}

@test "main_open: a prepare step that fails holds the run; one that was done is not done again" {
  ol_job_prepare() { echo "no such corpus" && return 1; }
  ol_attempt_prepare() {
    OUTLAST_WHY="the job's prepare step failed: no such corpus"
    return 1
  }
  opens
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "launch hold" ]
}

@test "main_insure: submits at the launch where the job wants that, and only there" {
  OUTLAST_GENERATION=000003
  ol_main_insure
  [ ! -s "$SCHED/told" ]
  OUTLAST_SUCCESSOR=launch
  status_of ol_main_insure 2>/dev/null
  told 'submit demo.4 depend=7 .*'
}

@test "main_insure: a refusal is told at once, for its cause may take a day to mend" {
  OUTLAST_GENERATION=000003 OUTLAST_SUCCESSOR=launch OUTLAST_MAIL_TO=bob@example.org
  echo 'sbatch: error: AssocMaxSubmitJobLimit' >"$SCHED/refuses"
  status_of ol_main_insure 2>/dev/null
  grep -qx 'X-Outlast-Kind: refused' "$OUTLAST_STATE"/outbox/*.mail
  grep -q AssocMaxSubmitJobLimit "$OUTLAST_STATE"/outbox/*.mail
  [ -z "$OUTLAST_THEN" ]
}

@test "main_interrupted: TERM, a wish, the clock and a stall each have their class" {
  OUTLAST_GENERATION=000003 OUTLAST_GENERATION_MINE=1
  _class() {
    OUTLAST_CLASS='' OUTLAST_NEXT_ID=''
    status_of ol_main_interrupted 'prepare' 2>/dev/null
    printf '%s' "$OUTLAST_CLASS"
  }
  [ "$(_class)" = storage ]
  touch "$OUTLAST_STATE/deadline"
  [ "$(_class)" = walltime ]
  touch "$OUTLAST_STATE/stop"
  [ "$(_class)" = stopped ]
  touch "$OUTLAST_STATE/term"
  printf 'state=ending verdict=cancelled restarts=0\n' >"$SCHED/state.7"
  [ "$(_class)" = cancelled ]
}

@test "main: the wait after a rapid crash ends when people or the clock say so" {
  OUTLAST_DELAY_S=60
  local file
  for file in term stop deadline; do
    touch "$OUTLAST_STATE/$file"
    run -2 _ol_main_wait
    rm "$OUTLAST_STATE/$file"
  done
  OUTLAST_DELAY_S=0
  run -0 _ol_main_wait
}

@test "main_attempt: a launch that cannot be prepared is a launch, a node's fault where it is down, or the number of ranks'" {
  OUTLAST_GENERATION=000003 OUTLAST_GENERATION_MINE=1
  _class() {
    eval "ol_attempt_begin() { OUTLAST_WHY='no way'; return $1; }"
    OUTLAST_THEN='' OUTLAST_NEXT_ID=''
    status_of ol_main_attempt 2>/dev/null
    printf '%s' "$OUTLAST_CLASS: $OUTLAST_EVIDENCE"
  }
  [ "$(_class 1)" = 'launch: no way' ]
  echo n1 >"$SCHED/down"
  [ "$(_class 1)" = 'node: the scheduler calls n1 down: no way' ]
  [ "$(_class 6)" = 'other_ranks: no way' ]
  [[ $(event held) == *'"why":"other_ranks: no way"'* ]]
}

# Another run, beside ours, with a durable checkpoint; and the run's own copy of outlast, which is this checkout's.
another_run() { # STEP
  OUTLAST_RUNS_DIR=${OUTLAST_RUN_DIR%/*} OUTLAST_RUN=old
  local OUTLAST_RUN_DIR=$OUTLAST_RUNS_DIR/old
  mkdir -p "$OUTLAST_RUN_DIR"/{checkpoints,lease}
  OUTLAST_GENERATION=000003 durable "$1"
  rm -rf "${OUTLAST_CKPT_DIR:?}"/* "$OUTLAST_STATE"/{durable_step,events.jsonl}
  touch "$OUTLAST_RUN_DIR/events.jsonl"
  OUTLAST_RUN=demo
}
python_works() {
  mkdir -p "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION"
  ln -s "$ROOT/pyhelpers/outlast" "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast"
  OUTLAST_PYTHON=$ROOT/.venv/bin/python
}

@test "main_open: a run that starts from another one's checkpoint has it as its own, once" {
  another_run 600
  python_works
  OUTLAST_FROM=old@600
  opens
  [ "$status $OUTLAST_THEN" = "0 " ]
  [ "$OUTLAST_RESUME_STEP $OUTLAST_DURABLE_AT_START" = "600 600" ]
  [ "$OUTLAST_RESUME_FROM" = "$OUTLAST_RUN_DIR/checkpoints/checkpoint-600" ]
  [[ $(event branched) == *'"step":600,"from":"'"$OUTLAST_RUNS_DIR"'/old/checkpoints/checkpoint-600","how":"linked"'* ]]
  [[ $(event branched) == *'"seconds":'* ]]
  [[ $(event checkpoint_durable) == *'"step":600'* && $(event checkpoint_durable) != *'"seconds":'* ]]
  [[ $(event started) == *'"durable_step":600'* ]]
}

@test "main_open: a run that has a checkpoint of its own starts from no other one" {
  was_durable 20
  OUTLAST_FROM=nowhere OUTLAST_RUNS_DIR=$BATS_TEST_TMPDIR
  opens
  [ "$status $OUTLAST_RESUME_STEP" = "0 20" ]
  [ -z "$(event branched)" ]
}

@test "main_open: what cannot be started from holds the run, also when nobody can look" {
  another_run 600
  OUTLAST_FROM=old@40
  opens
  [ "$status $OUTLAST_THEN" = "1 hold" ]
  [[ $(event held) == *"cannot start from old@40: no answer; why is in $OUTLAST_RUN_DIR/logs/$OUTLAST_JOB_ID."* ]]
  [ -z "$(event started)" ]
  python_works
  rm -rf "$OUTLAST_RUN_DIR/control/hold" "$OUTLAST_RUN_DIR/lease"/* "$OUTLAST_STATE/events.jsonl"
  opens
  [ "$status $OUTLAST_THEN" = "1 hold" ]
  [[ $(event held) == *"old has no durable checkpoint of step 40; it has 600"* ]]
}

@test "main: a rapid crash is told before its report is begun, one that is not rapid is not" {
  OUTLAST_MAIL_TO=bob@example.org OUTLAST_THEN=relaunch OUTLAST_EVIDENCE='rank 1 ended with code 3'
  ol_sidecar_drain() { :; }
  ol_report_start() { cat "$OUTLAST_STATE"/outbox/*.mail >"$BATS_TEST_TMPDIR/reported" 2>/dev/null; }
  ol_attempt_begin() { return 3; }
  ol_main_interrupted() { :; }
  OUTLAST_DELAY_S=0 OUTLAST_WHY=''
  status_of ol_main_attempt
  [ ! -s "$BATS_TEST_TMPDIR/reported" ]
  OUTLAST_DELAY_S=1 OUTLAST_THEN=relaunch
  status_of ol_main_attempt 2>/dev/null
  grep -qx 'X-Outlast-Kind: rapid_crash' "$BATS_TEST_TMPDIR/reported"
  grep -qx 'rank 1 ended with code 3; the next attempt comes in 1 s' "$BATS_TEST_TMPDIR/reported"
}

# What preflight says, to the point at which a job could be launched.
preflight_says() { # STATUS [CLASS] [WHY]
  eval "ol_preflight() { OUTLAST_PREFLIGHT_CLASS='${2:-}' OUTLAST_WHY='${3:-}'; return $1; }"
}

@test "main_open: nodes that are well are prepared for, those that are not never" {
  ol_attempt_prepare() { touch "$SCHED/prepared"; }
  preflight_says 1 unhealthy 'preflight: 1 of 2 nodes are left'
  ol_nodes_suffice() { return 1; }
  opens
  [ "$status $OUTLAST_CLASS $OUTLAST_THEN" = "1 unhealthy submit" ]
  [ ! -e "$SCHED/prepared" ]
  [[ $(event ended) == *'"evidence":"preflight: 1 of 2 nodes are left"'* ]]
}

@test "main_open: the user's command on checkpoints starts when the nodes have been asked, and not before" {
  ol_preflight() { echo preflight >>"$SCHED/order"; }
  ol_hook_start() { echo hook >>"$SCHED/order"; }
  opens
  [ "$status" = 0 ]
  [ "$(paste -sd' ' "$SCHED/order")" = "preflight hook" ]
}

@test "main_open: preflight holds a run whose modules do not load or whose site wants a person to look" {
  preflight_says 1 launch 'preflight: a module of here did not load, code 72'
  opens
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "launch hold" ]
  rm -rf "$OUTLAST_RUN_DIR/control/hold" "$OUTLAST_RUN_DIR/lease"/*
  preflight_says 1 held 'preflight: gpu_ecc of n1 is unknown'
  opens
  [ "$OUTLAST_THEN" = hold ]
  grep -q 'gpu_ecc of n1' "$OUTLAST_RUN_DIR/control/hold"
}

# A second launch of which nobody knows who is to blame for the first.
again() {
  ol_sidecar_drain() { :; }
  ol_attempt_begin() { echo launch >>"$SCHED/order" && return 3; }
  ol_main_interrupted() { :; }
  ol_ladder_climb() { echo "climb $1" >>"$SCHED/order"; }
  OUTLAST_DELAY_S=0 OUTLAST_THEN=relaunch OUTLAST_RUNG=${1-again} OUTLAST_DROPPED=' n9'
  status_of ol_main_attempt 2>/dev/null
}

@test "main_attempt: the nodes are asked before anybody is suspected, and not where somebody was named" {
  ol_preflight_again() { echo look >>"$SCHED/order"; }
  again
  [ "$(paste -sd' ' "$SCHED/order")" = 'look climb  n9 launch' ]
  : >"$SCHED/order"
  again ''
  [ "$(cat "$SCHED/order")" = launch ]
  : >"$SCHED/order"
  again host
  [ "$(paste -sd' ' "$SCHED/order")" = 'climb  n9 launch' ]
}

@test "main_attempt: with too few nodes left after that look there is no launch" {
  ol_nodes_suffice() { return 1; }
  ol_preflight_again() { OUTLAST_PREFLIGHT_CLASS=unhealthy OUTLAST_WHY='preflight: 1 of 2 nodes are left' && return 1; }
  again
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "unhealthy submit" ]
  [ ! -e "$SCHED/order" ]
}

@test "main_open: a job whose time is up in preflight ends for that" {
  ol_preflight() { touch "$OUTLAST_STATE/deadline" && return 2; }
  opens
  [ "$OUTLAST_CLASS $OUTLAST_THEN" = "walltime submit" ]
}
