#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2059 # a test is a subshell, and a log's text a format
load job

setup() {
  a_job
  ol_progress_reset
}

log() { printf "$@" >>"$OUTLAST_LOG"; }
look() { status_of ol_progress_look "$OUTLAST_LOG" "$@"; }
finished() { status_of ol_progress_is_finished "$OUTLAST_LOG" "${1:-}" "${2:-}"; }
# The last step that this regex finds in TEXT.
step_in() {
  OUTLAST_STEP_REGEX=$1
  ol_progress_reset
  printf "$2" >"$OUTLAST_LOG"
  look
  printf '%s\n' "$OUTLAST_STEP"
}

@test "progress_look: the first and the last step of the log" {
  log 'step 11 loss 2\nstep 12 loss 1\n'
  look
  [ "$OUTLAST_FIRST_STEP $OUTLAST_STEP" = "11 12" ]
  log 'step 13\n'
  look
  [ "$OUTLAST_FIRST_STEP $OUTLAST_STEP" = "11 13" ]
}

@test "progress_look: what was said last is a step, an evaluation or a save" {
  log 'step 11\nevaluating 3\n'
  look
  [ "$OUTLAST_STEP $OUTLAST_MARK" = "11 eval evaluating 3" ]
  log 'chat\n'
  look
  [ "$OUTLAST_MARK" = "" ]
  log 'evaluating 4\nnow saving all\n'
  look
  [ "$OUTLAST_STEP $OUTLAST_MARK" = "11 save saving" ]
  log 'saving\nstep 12 while evaluating\n'
  look
  [ "$OUTLAST_STEP $OUTLAST_MARK" = "12 " ]
}

@test "progress_look: no step seen is unknown, not 0" {
  log 'loading data\n'
  look
  [ "$OUTLAST_STEP$OUTLAST_FIRST_STEP" = "" ]
}

@test "progress_look: behind srun's labels, colours, carriage returns and other ranks' lines" {
  [ "$(step_in 'step ([0-9]+)' '0: step 7\n3: step 6 of 9\n')" = 6 ]
  [ "$(step_in 'step: *([0-9]+) +loss:' '0: \e[31mstep: \e[1;32m20\e[0m  loss: 8.1\e[m\n')" = 20 ]
  [ "$(step_in '\| *([0-9]+)/500 \[' '\r  2%%|#  | 10/500 [00:01<\r  4%%|#  | 20/500 [00:02<\r')" = 20 ]
}

@test "progress_look: the whole number, also where nothing stands in front of it" {
  [ "$(step_in '([0-9]+)/500' '1250/500 [0:31<]\n')" = 1250 ]
  [ "$(step_in '([0-9]+) of 500' '0: 1250 of 500\n')" = 1250 ]
}

@test "progress_look: either side of an alternative" {
  [ "$(step_in 'it(?:er)? ([0-9]+)' 'x\n')" = "" ]
  [ "$(step_in '(iter|step) *[:=] *[0-9]+' 'iter: 3\n')" = "" ]
  [ "$(step_in 'iter *: *([0-9]+) |done at' 'iter: 3 \n')" = 3 ]
}

@test "progress_look: a regex with slashes and quotes" {
  [ "$(step_in '"step": ([0-9]+)/' '{"step": 12/90}\n')" = 12 ]
}

@test "progress_look: zeros in front are decimal" {
  [ "$(step_in 'step ([0-9]+)' 'step 000090\n')" = 90 ]
}

@test "progress_look: step 0 counts only for presets that begin at 0" {
  [ "$(step_in 'step ([0-9]+)' 'step 0\n')" = "" ]
  OUTLAST_STEP_ZERO_COUNTS=1
  [ "$(step_in 'step ([0-9]+)' 'step 0\n')" = 0 ]
}

@test "progress_look: a number that is still being written is not read" {
  log 'loading\nstep 12'
  look
  [ "$OUTLAST_STEP" = "" ]
  log '34 loss 1\n'
  look
  [ "$OUTLAST_FIRST_STEP $OUTLAST_STEP" = "1234 1234" ]
}

@test "progress_look: a long line that is written in two pieces is read whole" {
  local long
  printf -v long '%*s' 3000 ''
  log 'step 1\n%s ste' "$long"
  look
  log 'p 7 %s\n' "$long"
  look
  [ "$OUTLAST_STEP" = 7 ]
}

@test "progress_look: when the ranks have ended the last line counts without its end" {
  log ' 699/700 [0:31<\r 700/700 [0:32<'
  OUTLAST_STEP_REGEX='([0-9]+)/700 \['
  look
  [ "$OUTLAST_STEP" = 699 ]
  look last
  [ "$OUTLAST_STEP" = 700 ]
}

@test "progress_look: bytes that are no text do no harm" {
  log 'step 5\n\0\xff\xfe\x80 step 6\n\0\0'
  look
  [ "$OUTLAST_STEP" = 6 ]
}

@test "progress_look: no regex, no steps, and no failure" {
  OUTLAST_STEP_REGEX=''
  log 'step 5\n'
  look
  [ "$OUTLAST_STEP" = "" ]
}

@test "progress_look: a log that is not there yet is no failure" {
  rm "$OUTLAST_LOG"
  look
  [ "$status" = 0 ]
}

@test "progress_look: what the shim and the launcher say is kept apart, each line once and whole" {
  log '0: outlast: rank 0 of 2 on n1 started\nstep 1\n1: outlast: rank 1 on n1 ended wi'
  look
  look
  log 'th code 3 at 1700000123\n'
  look
  log 'srun: error: Node failure on n04\nstep 2\n'
  look last
  [ "$(wc -l <"$OUTLAST_SAID")" = 3 ]
  grep -q 'rank 1 on n1 ended with code 3 at 1700000123$' "$OUTLAST_SAID"
}

@test "progress_is_finished: the target step, by the log or by the newest checkpoint" {
  OUTLAST_TARGET_STEP=605
  OUTLAST_STEP=604
  finished
  [ "$status" = 1 ]
  finished /x/checkpoint-605
  [ "$status" = 0 ]
  OUTLAST_STEP=605
  finished
  [ "$status" = 0 ]
}

@test "progress_is_finished: Hugging Face's own file knows both numbers" {
  checkpoint 600 "$OUTLAST_CKPT_DIR" 700
  finished "$OUTLAST_CKPT_DIR/checkpoint-600"
  [ "$status" = 1 ]
  checkpoint 700 "$OUTLAST_CKPT_DIR" 700
  finished "$OUTLAST_CKPT_DIR/checkpoint-700"
  [ "$status" = 0 ]
}

@test "progress_is_finished: nothing says so, and nothing could: unknown" {
  finished
  [ "$status" = 2 ]
  checkpoint 600
  finished "$OUTLAST_CKPT_DIR/checkpoint-600"
  [ "$status" = 2 ]
}

@test "progress_is_finished: the trainer's words count unless we asked it to stop" {
  OUTLAST_FINISH_REGEX='[Tt]raining (completed|finished)'
  log '0: INFO: Training completed.\n'
  finished
  [ "$status" = 0 ]
  finished '' deadline
  [ "$status" = 1 ]
}

@test "progress_is_finished: the words were expected and did not come: no" {
  OUTLAST_FINISH_REGEX='-- done --'
  log 'step 5\n'
  finished
  [ "$status" = 1 ]
}
