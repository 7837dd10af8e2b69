#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # words that stay text; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_ATTEMPT=0 OUTLAST_RESUME='' OUTLAST_MASTER='' OUTLAST_PORT='' OUTLAST_DEADLINE_S=''
  ol_site_modules() { :; }
  ol_site_env() { :; }
  ol_job_env() { :; }
  ol_job_setup() { :; }
  ol_environment_job() { :; }
  ol_sched_launch() { "${@:3}"; } # one rank, here
  ol_bounded_open
  exec {OUTLAST_OUT_FD}>/dev/null
}

command_words() {
  _ol_attempt_command
  printf '<%s>' "${OUTLAST_WORDS[@]}"
}
# Begin an attempt, and wait for its one rank.
begins() {
  status_of ol_attempt_begin 2>>"$OUTLAST_STATE/job.log"
  [[ $status != 0 ]] || wait "$OUTLAST_LAUNCH_PID" || LAUNCH_CODE=$?
}

@test "attempt: the command's placeholders are filled, and its words stay words" {
  OUTLAST_COMMAND=(python3 'my train.py' '--out={ckpt_dir}' --n '{nodes}x{ranks}' --name '{run} 1' '$HOME' '*')
  OUTLAST_CKPT_DIR='/lake/a b'
  [ "$(command_words)" = '<python3><my train.py><--out=/lake/a b><--n><1x2><--name><demo 1><$HOME><*>' ]
}

@test "attempt: {resume} is the preset's words after a checkpoint, and nothing at all on a fresh start" {
  OUTLAST_COMMAND=(train '{resume}' --last)
  [ "$(command_words)" = '<train><--last>' ]
  OUTLAST_RESUME='/lake/a b/checkpoint-20'
  [ "$(command_words)" = '<train><--resume></lake/a b/checkpoint-20><--last>' ]
  OUTLAST_RESUME_ARGS=('--from={ckpt}/model')
  [ "$(command_words)" = '<train><--from=/lake/a b/checkpoint-20/model><--last>' ]
  OUTLAST_RESUME_ARGS=()
  [ "$(command_words)" = '<train><--last>' ]
}

@test "attempt: an ampersand or a backslash in a path is one" {
  OUTLAST_COMMAND=('{ckpt_dir}' '{resume}')
  OUTLAST_CKPT_DIR='/lake/R&D\x' OUTLAST_RESUME='/lake/R&D\x/checkpoint-1'
  [ "$(command_words)" = '</lake/R&D\x><--resume></lake/R&D\x/checkpoint-1>' ]
}

@test "attempt: a fresh start promises nothing, and the trainer sees no checkpoint" {
  checkpoint 40
  OUTLAST_COMMAND=(bash -c 'echo "resume <$OUTLAST_RESUME> step <$OUTLAST_RESUME_STEP>"; ls "$OUTLAST_CKPT_DIR"')
  begins
  [ "$status $OUTLAST_RESUME_STEP" = "0 " ]
  grep -qx 'resume <> step <>' "$OUTLAST_LOG"
  [ -z "$(ls "$OUTLAST_CKPT_DIR")" ]
}

@test "attempt: after a durable checkpoint the trainer is given that one, and no newer one" {
  durable 20
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-40"
  OUTLAST_COMMAND=(printf '<%s>' '{resume}')
  begins
  [ "$OUTLAST_RESUME_STEP" = 20 ]
  [ "$(cat "$OUTLAST_STATE/attempt")" = $'1 n1\ncheckpoint-20' ]
  grep -q "<--resume><$OUTLAST_CKPT_DIR/checkpoint-20>" "$OUTLAST_LOG"
  [ "$(ls "$OUTLAST_CKPT_DIR")" = checkpoint-20 ]
  [[ $(event staged) == *'"step":20}' && $(event launched) == *'"step":20,"nodes":1,"hosts":"n1",'* ]]
}

@test "attempt: with stage_in none the trainer finds the durable one where it looks" {
  OUTLAST_STAGE_IN=none
  durable 20
  OUTLAST_COMMAND=(bash -c 'cat "$OUTLAST_RESUME/model.safetensors" "$OUTLAST_CKPT_DIR"/checkpoint-*/model.safetensors')
  begins
  [ "$(grep -c 'weights of step 20' "$OUTLAST_LOG")" = 2 ]
  [ -L "$OUTLAST_CKPT_DIR/checkpoint-20" ]
}

@test "attempt: on shared storage the trainer resumes where it wrote, and torn ones are out of its sight" {
  OUTLAST_STORAGE=shared OUTLAST_CKPT_DIR=$OUTLAST_RUN_DIR/checkpoints
  checkpoint 20
  ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/checkpoint-20" 2>/dev/null
  mkdir "$OUTLAST_CKPT_DIR/checkpoint-40"
  OUTLAST_COMMAND=(printf '<%s>' '{resume}')
  begins
  grep -q "<--resume><$OUTLAST_RUN_DIR/checkpoints/checkpoint-20>" "$OUTLAST_LOG"
  [ "$(ls "$OUTLAST_CKPT_DIR")" = checkpoint-20 ]
}

@test "attempt: a checkpoint that cannot be put on every node is no launch" {
  durable 20
  ol_sched_on_each() { return 1; }
  begins
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"checkpoint 20"* ]]
  [ "$(event launched)" = "" ]
}

@test "attempt: a checkpoint file of one's own is given back as the file that it was" {
  OUTLAST_CKPT_PREFIX=step- OUTLAST_CKPT_COMPLETE=''
  owns_the_run
  echo weights >"$OUTLAST_CKPT_DIR/step-20.ckpt"
  ol_checkpoint_keep 20 "$OUTLAST_CKPT_DIR/step-20.ckpt" 2>/dev/null
  OUTLAST_COMMAND=(cat '{resume}')
  OUTLAST_RESUME_ARGS=('{ckpt}')
  begins
  grep -qx weights "$OUTLAST_LOG"
}

@test "attempt: a file system that does not answer is waited for, and told apart from no checkpoint" {
  ol_run_pause() { return 0; }
  ol_checkpoint_durable() { return 2; }
  OUTLAST_STARTED_S=$(($(now) - 3299))
  begins
  [ "$status" = 3 ]
}

@test "attempt: TERM while it waits ends it" {
  touch "$OUTLAST_STATE/term"
  ol_checkpoint_durable() { return 2; }
  begins
  [ "$status" = 2 ]
}

@test "attempt: a setup line or a module that fails is code 72, with a line that says which" {
  ol_job_setup() { return 1; }
  LAUNCH_CODE=0
  begins
  [ "$LAUNCH_CODE" = 72 ]
  grep -q 'a line of setup failed' "$OUTLAST_LOG"
  ol_site_modules() { return 1; }
  begins
  [ "$LAUNCH_CODE" = 72 ]
  grep -q 'a module of here did not load' "$OUTLAST_LOG"
}

@test "attempt: what the launch closes for the ranks, the site's own functions do not miss" {
  ol_site_env() { ol_bounded 60 sleep 0.3 || exit 99; }
  OUTLAST_COMMAND=(true)
  LAUNCH_CODE=0
  begins
  [ "$LAUNCH_CODE" = 0 ]
}

@test "attempt: a project that is gone is code 72" {
  OUTLAST_PROJECT=$BATS_TEST_TMPDIR/gone
  LAUNCH_CODE=0
  begins
  [ "$LAUNCH_CODE" = 72 ]
}

@test "attempt: a node whose file system has no pipes launches all the same" {
  unset OL_NAP_FD
  LAUNCH_CODE=0
  OUTLAST_COMMAND=(true)
  begins
  [ "$status $LAUNCH_CODE" = "0 0" ]
}

@test "attempt: the ranks get the stop file, the deadline, the master and a port of this attempt's own" {
  OUTLAST_COMMAND=(bash -c 'echo "$OUTLAST_STOP_FILE $OUTLAST_DEADLINE $MASTER_ADDR $MASTER_PORT"')
  begins
  grep -qE "^$OUTLAST_LOCAL/stop [0-9]{10} 127\.0\.0\.1 [0-9]{5}$" "$OUTLAST_LOG"
  local first=$OUTLAST_PORT
  begins
  [ "$OUTLAST_PORT" != "$first" ]
}

@test "attempt: a new one starts with nothing of the last: no request, no step, a log of its own" {
  printf 'deadline\n' >"$OUTLAST_STATE/asked"
  touch "$OUTLAST_LOCAL/stop"
  OUTLAST_STEP=50 OUTLAST_FIRST_STEP=1
  begins
  [ ! -e "$OUTLAST_STATE/asked" ] && [ ! -e "$OUTLAST_LOCAL/stop" ]
  [ "$OUTLAST_STEP$OUTLAST_FIRST_STEP" = "" ]
  [ "$OUTLAST_LOG" = "$OUTLAST_LOCAL/attempt.1.log" ]
}

@test "attempt: a master without one usable address is no launch, and the reason is kept" {
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n1 n2)
  ol_environment_master() { echo '10:00:00 outlast: error: n1 has no IPv4 address' >&2 && return 1; }
  begins
  [ "$status" = 1 ]
  [ "$OUTLAST_WHY" = 'n1 has no IPv4 address' ]
}

@test "attempt_prepare: runs once per run, in the project folder" {
  ol_job_prepare() { pwd >>"$SCHED/prepared"; }
  status_of ol_attempt_prepare 2>/dev/null
  status_of ol_attempt_prepare 2>/dev/null
  [ "$(cat "$SCHED/prepared")" = "$OUTLAST_PROJECT" ]
}

@test "attempt_prepare: a failure is told with its last line, and is done again by the next job" {
  ol_job_prepare() { echo 'no such corpus' && return 1; }
  status_of ol_attempt_prepare 2>/dev/null
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"no such corpus" ]]
  [ ! -e "$OUTLAST_RUN_DIR/prepared" ]
}

@test "attempt_prepare: what has run is no failure when that cannot be noted" {
  ol_job_prepare() { :; }
  ol_shared() { [ "$1" != touch ] && "$@"; }
  status_of ol_attempt_prepare 2>/dev/null
  [ "$status" = 0 ]
}

@test "attempt_prepare: has a limit, and heeds TERM" {
  ol_job_prepare() { exec sleep 60; }
  OUTLAST_PREPARE_LIMIT_S=1
  status_of ol_attempt_prepare 2>/dev/null
  [ "$status" = 1 ]
  touch "$OUTLAST_STATE/term"
  OUTLAST_PREPARE_LIMIT_S=60
  status_of ol_attempt_prepare 2>/dev/null
  [ "$status" = 2 ]
}

@test "attempt_prepare: a child that dies of the job's TERM before we hear of it is an interruption, not a failure" {
  ol_job_prepare() { return 143; }
  ol_bounded_nap() {
    [[ $1 != 0.5 ]] || : >"$OUTLAST_STATE/term" # the nap behind a child's death
    sleep "$1"
  }
  status_of ol_attempt_prepare
  [ "$status" = 2 ]
}
