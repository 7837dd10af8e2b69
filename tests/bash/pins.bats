#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031 # words that stay text; a test is a subshell, and that is wanted
load job

setup() {
  a_job
  has_no_site
  ol_bounded_open
  OUTLAST_RESUME='' OUTLAST_RESUME_STEP='' OUTLAST_ROOT=/nowhere OUTLAST_PYTHON_PATH=false
  # The run's own copy of outlast, which is this checkout's.
  mkdir -p "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION"
  ln -s "$ROOT/pyhelpers/outlast" "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast"
  OUTLAST_PYTHON=$ROOT/.venv/bin/python
  ol_py_install() { echo "$OUTLAST_RUN_DIR/tool"; } # it says where
  printf '%s\n' "$OUTLAST_PROJECT" >"$OUTLAST_RUN_DIR/project_dir"
  touch "$OUTLAST_RUN_DIR/events.jsonl"
  echo once >"$OUTLAST_PROJECT/train.txt"
}

asks() {
  OUTLAST_WHY=''
  ol_pins_begin
  status_of ol_pins_end 2>>"$OUTLAST_STATE/job.log"
}

@test "pins: where nothing is pinned nobody is asked" {
  OUTLAST_PYTHON=/gone
  asks
  [ "$status" = 0 ]
  [ ! -e "$OUTLAST_RUN_DIR/pins.toml" ]
}

@test "pins: written at the first launch, compared at the next, and what differs is in one text" {
  OUTLAST_PIN_FILES=(train.txt) OUTLAST_PIN_COMMANDS=('echo "torch 2; $LOADED; $PWD"' 'exit 3')
  asks
  [ "$status" = 0 ]
  [[ $(event pins) == *'"answer":"written"'* ]]
  grep -qF "torch 2; yes; $OUTLAST_PROJECT" "$OUTLAST_RUN_DIR/pins.toml"
  grep -qF '"exit 3" = "status 3\n"' "$OUTLAST_RUN_DIR/pins.toml"
  asks
  [ "$status$OUTLAST_WHY" = 0 ]
  echo twice upon a time >"$OUTLAST_PROJECT/train.txt"
  asks
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == "what this run trains with has changed (if that is right: outlast resume $OUTLAST_RUN_DIR --accept-pins): train.txt has changed (18 bytes, was 5; "* ]]
}

@test "pins: of many differences the first five are told" {
  local number
  for number in {1..9}; do echo "$number" >"$OUTLAST_PROJECT/f$number"; done
  OUTLAST_PIN_FILES=(f1 f2 f3 f4 f5 f6 f7 f8 f9)
  asks
  rm "$OUTLAST_PROJECT"/f[2-9]
  asks
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == *"f6 is missing; and 3 more" ]]
}

@test "pins: without Python nobody can tell, and the run goes on" {
  OUTLAST_PIN_FILES=(train.txt) OUTLAST_PYTHON=false
  asks
  [ "$status" = 0 ]
  [[ $(event warned) == *"could not be compared"* ]]
}

@test "pins: setup that fails is no difference" {
  OUTLAST_PIN_FILES=(train.txt) OUTLAST_PIN_COMMANDS=(date)
  ol_job_setup() { return 1; }
  asks
  [ "$status" = 0 ]
  [[ $(event warned) == *"could not be compared"* ]]
}

@test "pins: a job that is told to end does not wait" {
  OUTLAST_PIN_COMMANDS=('sleep 50')
  touch "$OUTLAST_STATE/term"
  asks
  [ "$status" = 2 ]
}

@test "pins: what has changed keeps the trainer from being launched" {
  ol_pins_begin() { :; }
  ol_pins_end() { OUTLAST_WHY=changed && return 1; }
  status_of ol_attempt_begin 2>/dev/null
  [ "$status $OUTLAST_WHY" = "5 changed" ]
  [ -z "$(event launched)" ]
}
