#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # text for a shell of its own; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  OUTLAST_LOCAL_BASE=$BATS_TEST_TMPDIR/nvme OUTLAST_RUNS_DIR=$BATS_TEST_TMPDIR/lake2 OUTLAST_PROJECT_DIR=''
  SCRIPT=$BATS_TEST_TMPDIR/job.sh
  printf '#!/bin/bash\necho mine\n' >"$SCRIPT"
}

# ol_run_begin sends all further output to the job's log, so it gets a shell of its own: begin 'WHAT FOLLOWS'
begin() {
  (
    set +e
    ol_run_begin "$SCRIPT" && eval "${1:-:}"
  )
}
open() { status_of ol_run_open; }
# As begin leaves it, without the change of output.
begun() {
  OUTLAST_RUN_DIR=$OUTLAST_RUNS_DIR/$OUTLAST_RUN
  cp "$SCRIPT" "$OUTLAST_STATE/job.sh"
}

@test "run_begin: a folder of our own on the node, for nobody else to see" {
  begin
  local dir=("$OUTLAST_LOCAL_BASE"/outlast.7.*)
  [ "$(stat -c %a "${dir[0]}")" = 700 ]
  cmp "$SCRIPT" "${dir[0]}/state/job.sh"
}

@test "run_begin: a disk that is full already does not keep the job from saying so" {
  head() { return 1; }
  run -0 begin 'echo "$OUTLAST_STATE" >&"$OUTLAST_OUT_FD"; rm -rf "$OUTLAST_STATE"'
  [[ $output == *"no room in $OUTLAST_LOCAL_BASE"* && $output == */tmp/outlast.7.* ]]
}

@test "run_begin: says where the log goes on, and all that follows is there" {
  run -0 begin 'ol_log_info inside'
  [[ $output == *"the log goes on in $BATS_TEST_TMPDIR/lake2/demo/logs/7.0.log" ]]
  grep -q inside "$OUTLAST_LOCAL_BASE"/outlast.7.*/state/job.log
}

@test "run_begin: a scheduler that must be asked how often the job was restarted gets three tries" {
  sleep() { :; }
  ol_sched_restart() { [[ -e $BATS_TEST_TMPDIR/asked ]] && echo 2 || { touch "$BATS_TEST_TMPDIR/asked" && return 2; }; }
  run -0 begin 'echo "restart $OUTLAST_RESTART" >&"$OUTLAST_OUT_FD"'
  [[ $output == *"restart 2"* && $output != *"does not say"* ]]
  ol_sched_restart() { return 2; }
  run -0 begin 'echo "restart $OUTLAST_RESTART" >&"$OUTLAST_OUT_FD"'
  [[ $output == *"does not say whether it started this job before"*"restart 0"* ]]
}

@test "run_begin: so does one that must be asked for its nodes, and a job that knows none ends" {
  sleep() { :; }
  ol_sched_nodes() { [[ -e $BATS_TEST_TMPDIR/asked ]] && echo n1 || { touch "$BATS_TEST_TMPDIR/asked" && return 2; }; }
  run -0 begin 'echo "hosts ${OUTLAST_HOSTS[*]}" >&"$OUTLAST_OUT_FD"'
  [[ $output == *"hosts n1"* ]]
  ol_sched_nodes() { return 2; }
  run -1 begin
  [[ $output == *"the scheduler does not say which nodes job 7 has"* ]]
  [ "$(find "$OUTLAST_LOCAL_BASE" -name 'outlast.7.*' | wc -l)" = 1 ]
}

@test "run_begin: two runs of one name in two places do not meet on a node" {
  begin
  OUTLAST_RUNS_DIR=$BATS_TEST_TMPDIR/elsewhere
  begin
  [ "$(entries "$OUTLAST_LOCAL_BASE" | wc -w)" = 2 ]
}

@test "run_begin: a requeued job does not start with what its first run left" {
  begin 'touch "$OUTLAST_STATE/term"'
  begin '[[ ! -e $OUTLAST_STATE/term ]] && echo clean >&"$OUTLAST_OUT_FD"' | grep -q clean
}

@test "run_begin: somebody else's folder is not taken, and not cleared up at the exit either" {
  ((EUID == 0)) || skip "only root can make somebody else's folder"
  begin
  local dir=("$OUTLAST_LOCAL_BASE"/outlast.7.*)
  chown -R nobody "${dir[0]}"
  run -1 begin
  [[ $output == *"no node-local folder"* ]]
  (
    set +e
    trap ol_settle_unexpected EXIT
    ol_run_begin "$SCRIPT" || exit 1
  ) 2>/dev/null || true
  [ -e "${dir[0]}/state/job.sh" ]
}

@test "run_begin: a script that cannot be kept is told to whoever reads the scheduler's output" {
  cp() { return 1; }
  run -1 begin
  [[ $output == *"cannot copy"* ]]
}

@test "run_begin: what is not a job is no run" {
  ol_sched_job_id() { return 1; }
  run -1 begin
}

@test "run_begin: checkpoints lie on the node or in the run, as the job says" {
  begin 'echo "$OUTLAST_CKPT_DIR" >&"$OUTLAST_OUT_FD"' | grep -qx "$OUTLAST_LOCAL_BASE/outlast.7.*/checkpoints"
  OUTLAST_STORAGE=shared
  begin 'echo "$OUTLAST_CKPT_DIR" >&"$OUTLAST_OUT_FD"' | grep -qx "$OUTLAST_RUNS_DIR/demo/checkpoints"
}

@test "run_open: makes the run's folder: ours to write, the group's to read, and control/ the group's to write" {
  begun
  umask 000
  open
  [ "$status" = 0 ]
  [ "$(stat -c %a "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR/checkpoints" "$OUTLAST_RUN_DIR/control" | paste -sd' ')" = "750 750 2770" ]
}

@test "run_open: the project is where sbatch was typed, and stays that for the successors" {
  begun
  open
  [ "$OUTLAST_PROJECT" = "$OUTLAST_START_DIR" ]
  OUTLAST_START_DIR=/somewhere/else
  open
  [ "$OUTLAST_PROJECT" = "$BATS_TEST_TMPDIR/project" ]
}

@test "run_open: a project's name may have blanks and quotes" {
  OUTLAST_PROJECT_DIR="$BATS_TEST_TMPDIR/it's my  project"
  begun
  open
  [ "$OUTLAST_PROJECT" = "$OUTLAST_PROJECT_DIR" ]
}

@test "run_open: an empty note of the project, left by a full file system, is written again" {
  begun
  mkdir -p "$OUTLAST_RUN_DIR"
  : >"$OUTLAST_RUN_DIR/project_dir"
  open
  [ "$OUTLAST_PROJECT" = "$OUTLAST_START_DIR" ]
}

@test "run_open: refuses a folder, a script or tools that others can write" {
  begun
  open
  touch "$OUTLAST_RUN_DIR/job.sh"
  local what
  for what in . job.sh tool; do
    chmod g+w "$OUTLAST_RUN_DIR/$what"
    run -1 ol_run_open
    [[ $output == *"not yours alone to write"* ]]
    chmod g-w "$OUTLAST_RUN_DIR/$what"
  done
  open
  [ "$status" = 0 ]
}

@test "run_open: 1 where nothing can be made, with a line that says what to set" {
  begun
  touch "$OUTLAST_RUNS_DIR"
  run -1 ol_run_open
  [[ $output == *"set runs_dir"* ]]
}

@test "run_open: 2 where the file system does not answer" {
  begun
  OUTLAST_SHARED_LIMIT_S=1
  mkdir() { sleep 60; }
  export -f mkdir
  open
  [ "$status" = 2 ]
}

@test "run_keep_script: what its user rendered last is kept, whole and for the owner to write" {
  begun
  open
  status_of ol_run_keep_script
  cmp "$SCRIPT" "$OUTLAST_RUN_DIR/job.sh"
  [ "$(stat -c %a "$OUTLAST_RUN_DIR/job.sh")" = 750 ]
  [ ! -e "$OUTLAST_RUN_DIR/job.sh.new" ]
}

@test "run_keep_script: a job of the chain, or a requeued one, does not undo a newer script" {
  begun
  open
  echo newer >"$OUTLAST_RUN_DIR/job.sh"
  OUTLAST_PARENT=6 ol_run_keep_script
  OUTLAST_RESTART=1 ol_run_keep_script
  [ "$(cat "$OUTLAST_RUN_DIR/job.sh")" = newer ]
}

@test "run_keep_script: a copy that breaks off leaves the old script" {
  begun
  open
  echo older >"$OUTLAST_RUN_DIR/job.sh"
  cp() {
    printf '#!/bi' >"$2"
    return 1
  }
  export -f cp
  status_of ol_run_keep_script 2>/dev/null
  [ "$(cat "$OUTLAST_RUN_DIR/job.sh")" = older ]
}

@test "run_keep_patterns: the user's own file, by who begins a chain; a later loss changes nothing" {
  begun
  open
  OUTLAST_CRASH_PATTERNS=$BATS_TEST_TMPDIR/mine
  echo one >"$OUTLAST_CRASH_PATTERNS"
  ol_run_keep_patterns
  echo two >"$OUTLAST_CRASH_PATTERNS"
  OUTLAST_PARENT=6 ol_run_keep_patterns
  [ "$(cat "$OUTLAST_RUN_DIR/patterns.toml")" = one ]
  ol_run_keep_patterns
  rm "$OUTLAST_CRASH_PATTERNS"
  status_of ol_run_keep_patterns 2>/dev/null
  [ "$status $(cat "$OUTLAST_RUN_DIR/patterns.toml")" = '0 two' ]
}

@test "run_note_sources: the commit of the project folder, and how many files differ from it" {
  begun
  OUTLAST_PROJECT=$BATS_TEST_TMPDIR/project
  ol_run_note_sources
  [ ! -e "$OUTLAST_STATE/sources" ]
  git init -q "$OUTLAST_PROJECT"
  cd "$OUTLAST_PROJECT"
  echo one >train.py
  git add . && git -c user.name=a -c user.email=a@b commit -qm first
  echo log >output
  ol_run_note_sources
  [ "$(cat "$OUTLAST_STATE/sources")" = "$(git rev-parse HEAD) 0" ]
  echo two >train.py
  ol_run_note_sources
  [ "$(cat "$OUTLAST_STATE/sources")" = "$(git rev-parse HEAD) 1" ]
}

@test "run_note_sources: an answer that is cut short is none" {
  begun
  printf '#!/bin/sh\necho 0123abcd\n' >"$BATS_TEST_TMPDIR/git"
  chmod +x "$BATS_TEST_TMPDIR/git"
  PATH=$BATS_TEST_TMPDIR:$PATH OUTLAST_PROJECT=$BATS_TEST_TMPDIR ol_run_note_sources
  [ ! -e "$OUTLAST_STATE/sources" ]
}

@test "run_pause: sleeps, but not on when the job is told to end" {
  touch "$OUTLAST_STATE/term"
  run -1 ol_run_pause 60
}
