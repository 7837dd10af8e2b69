#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # texts that a function becomes; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  ol_run_pause() { return 0; } # no test waits between two tries
  printf 'the run keeps this\n' >"$OUTLAST_RUN_DIR/job.sh"
  printf 'this job has that\n' >"$OUTLAST_STATE/job.sh"
}

submit() { status_of ol_successor_submit "$@" 2>/dev/null; }
submits() { grep -c '^submit' "$SCHED/told"; }
pending() { printf 'state=pending verdict=none restarts=0\n' >"$SCHED/state.$1"; }
# The first call of FUNCTION does this instead.
fails_once() { # FUNCTION TEXT
  eval "_real_$(declare -f "$1")"
  eval "$1() { if [[ ! -e \$SCHED/once.$1 ]]; then touch \"\$SCHED/once.$1\"; $2; else _real_$1 \"\$@\"; fi; }"
}

@test "successor_submit: waits for this job's end, has a name of its own, runs the run's script" {
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 8" ]
  told "submit demo.4 depend=7 delay_s=0 exclude= output=$OUTLAST_RUN_DIR/logs/%j.out dir=$OUTLAST_PROJECT.*"
  grep -q 'the run keeps this' "$SCHED/script"
  [[ $(event submitted) == *'"successor":"8","name":"demo.4","by":"job 7"}' ]]
}

@test "successor_submit: the name's number is decimal behind zeros" {
  OUTLAST_GENERATION=000008
  submit 0
  told 'submit demo.9 .*'
}

@test "successor_submit: when the run's script is away, this job's own is submitted" {
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  submit 0
  [ "$status" = 0 ]
  grep -q 'this job has that' "$SCHED/script"
}

@test "successor_submit: a second call submits nothing" {
  submit 0
  pending 8
  submit 0
  [ "$status $(submits)" = "0 1" ]
}

@test "successor_submit: the one that waited and was taken away is not replaced, and a line says what to type" {
  local state
  for state in 'state=ended verdict=cancelled restarts=0' ''; do # Slurm forgets a job after minutes
    rm -f "$SCHED/state.9"
    [[ -z $state ]] || printf '%s\n' "$state" >"$SCHED/state.9"
    OUTLAST_NEXT_ID=9
    submit 0
    [ "$status" = 3 ]
    [[ $OUTLAST_WHY == *"job 9, "*"outlast resume"* ]]
  done
  [ ! -s "$SCHED/told" ]
}

@test "successor_submit: the one that waits is not taken for gone when nobody can say" {
  OUTLAST_NEXT_ID=9
  touch "$SCHED/silent"
  submit 0
  [ "$status" = 0 ]
}

@test "successor_submit: one that waits already is taken, by its name" {
  echo 9 >"$SCHED/found"
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 9" ]
  [ ! -s "$SCHED/told" ]
}

@test "successor_submit: a requeued job takes the one that it made before" {
  past 7 submitted successor=9
  pending 9
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 9" ]
  [ ! -s "$SCHED/told" ]
}

@test "successor_submit: a submit that seemed to fail and had worked is found, not repeated" {
  fails_once ol_sched_submit 'echo submit >>"$SCHED/told"; echo 9 >"$SCHED/found"; return 2'
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 9" ]
  [ "$(submits)" = 1 ]
}

@test "successor_submit: as long as nobody can say whether it worked, nothing is submitted again" {
  fails_once ol_sched_submit 'echo submit >>"$SCHED/told"; echo 9 >"$SCHED/found"; return 2'
  ol_sched_find() { # does not answer the first time after that, then it knows
    [[ -e $SCHED/found ]] || return 1
    [[ -e $SCHED/asked ]] || { touch "$SCHED/asked" && return 2; }
    cat "$SCHED/found"
  }
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 9" ]
  [ "$(submits)" = 1 ]
}

@test "successor_submit: a state that nobody tells is not 'ended' either" {
  past 7 submitted successor=9
  pending 9
  fails_once ol_sched_state 'return 2'
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 9" ]
  [ ! -s "$SCHED/told" ]
}

@test "successor_submit: a submit that failed is tried again when the scheduler says that nothing came of it" {
  fails_once ol_sched_submit 'return 2'
  submit 0
  [ "$status $OUTLAST_NEXT_ID" = "0 8" ]
}

@test "successor_submit: refused for good is 1, with the scheduler's words" {
  echo 'sbatch: error: AssocMaxSubmitJobLimit' >"$SCHED/refuses"
  submit 0
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *AssocMaxSubmitJobLimit* ]]
  [ "$(event submitted)" = "" ]
}

@test "successor_submit: without an answer to the end it is 2, and says what to type" {
  touch "$SCHED/silent"
  OUTLAST_STARTED_S=$(($(now) - 3600))
  submit 0
  [ "$status" = 2 ]
  [[ $OUTLAST_WHY == *"outlast resume $OUTLAST_RUN_DIR"* ]]
}

@test "successor_submit: nothing is tried again once the run has another owner" {
  touch "$SCHED/silent"
  owns_the_run
  ol_run_pause() { rm "$SCHED/silent" && printf 'job=7 restart=1 host=n2\n' >"$OUTLAST_RUN_DIR/lease/000099"; }
  submit 0
  [ "$status" = 4 ]
  [ "$(event submitted)" = "" ]
}

@test "successor_submit: with TERM there is time for one try" {
  touch "$SCHED/silent" "$OUTLAST_STATE/term"
  ol_run_pause() { touch "$SCHED/paused"; }
  submit 0
  [ "$status" = 2 ]
  [ ! -e "$SCHED/paused" ]
}

@test "successor_submit: bad nodes are excluded beside the user's own, each once, unknown ones left out" {
  OUTLAST_EXCLUDE=n5,unknown1 OUTLAST_DROPPED=' n3 n5'
  submit 0
  told 'submit demo.4 depend=7 delay_s=0 exclude=n3,n5 .*'
}

@test "successor_submit: a list of nodes that cannot be checked is left out, the job is not" {
  ol_sched_known_nodes() { return 2; }
  OUTLAST_DROPPED=n3
  submit 0
  told 'submit demo.4 depend=7 delay_s=0 exclude= .*'
}

@test "successor_submit: the list of nodes has a cap" {
  OUTLAST_EXCLUDE_CAP=2 OUTLAST_DROPPED='n1 n2 n3'
  submit 0
  told 'submit demo.4 depend=7 delay_s=0 exclude=n1,n2 .*'
}

bad() { printf '%s  %(%Y-%m-%d)T  hang%s\n' "$1" "$(($(now) - 43200))" "${2:-}" >>"$BATS_TEST_TMPDIR/lake/bad_nodes.txt"; }

@test "successor_submit: bad nodes of the file are excluded too, behind the job's own where the list is full" {
  bad n8
  bad n7 '  strikes=2'
  OUTLAST_DROPPED=' n9'
  submit 0
  told 'submit demo.4 depend=7 delay_s=0 exclude=n7,n8,n9 .*'
  OUTLAST_NEXT_ID='' OUTLAST_EXCLUDE_CAP=2
  submit 0
  told 'submit demo.4 depend=7 delay_s=0 exclude=n7,n9 .*'
}

@test "successor_submit: a job that is refused with the bad nodes left out is submitted without that list" {
  bad n8
  fails_once ol_sched_submit 'printf "submit %s\n" "${*:2}" >>"$SCHED/told"; echo "Requested node configuration is not available" >&2; return 1'
  OUTLAST_DROPPED=' n9'
  submit 0
  [ "$status $OUTLAST_NEXT_ID $(submits)" = "0 8 2" ]
  told 'submit demo.4 depend=7 delay_s=0 exclude=n9 .*'
}

@test "successor_submit: bad nodes that cannot be read are no reason to wait" {
  mkdir "$BATS_TEST_TMPDIR/lake/bad_nodes.txt"
  OUTLAST_DROPPED=' n9'
  submit 0
  told 'submit demo.4 depend=7 delay_s=0 exclude=n9 .*'
}

@test "successor_submit: the delay is passed on" {
  submit 240
  told 'submit demo.4 depend=7 delay_s=240 .*'
}

@test "successor_remove: what waits and is ours by the ledger goes, in one call; running and ended jobs stay" {
  past 6 submitted successor=9
  past 7 submitted successor=10
  past 7 submitted successor=11
  pending 9
  pending 10
  printf 'state=running verdict=none restarts=0\n' >"$SCHED/state.11"
  OUTLAST_NEXT_ID=10
  status_of ol_successor_remove 2>/dev/null
  [ "$(cat "$SCHED/told")" = 'cancel 10 9' ]
}

@test "successor_remove: nothing to remove is no call" {
  status_of ol_successor_remove
  [ "$status" = 0 ]
  [ ! -s "$SCHED/told" ]
}

@test "successor_remove: this job is never in the list" {
  past 6 submitted successor=7
  pending 7
  status_of ol_successor_remove
  [ ! -s "$SCHED/told" ]
}

@test "successor_command: prints one line to type" {
  run -0 ol_successor_command
  [ "$output" = "outlast resume $OUTLAST_RUN_DIR" ]
}

@test "successor_command: a folder with blanks can be pasted" {
  OUTLAST_RUN_DIR="/lake/my runs/it's"
  run -0 ol_successor_command
  eval "set -- $output"
  [ "$3" = "/lake/my runs/it's" ]
}
