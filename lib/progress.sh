# shellcheck shell=bash
# lib/progress.sh - which step the trainer has reached, read from its log
#
# Functions
#   ol_progress_look LOG [last]   read what is new in LOG; sets OUTLAST_STEP to the last step seen and
#                             OUTLAST_FIRST_STEP to the first (both empty as long as none was: unknown is not 0),
#                             OUTLAST_MARK to `eval WORDS` or `save WORDS` if that was said last, else to nothing;
#                             what the shim and the launcher say of ranks and nodes is appended to OUTLAST_SAID.
#                             last: nobody writes any more, what has no line end counts too
#   ol_progress_reset         a new attempt begins
#   ol_progress_is_finished   does the log, the last checkpoint or the step say that training is over?
#                             0 yes, 1 no, 2 cannot be known
#
# Reads    OUTLAST_STEP_REGEX OUTLAST_EVAL_REGEX OUTLAST_SAVE_REGEX (extended, one group each) OUTLAST_STEP_ZERO_COUNTS OUTLAST_FINISH_REGEX OUTLAST_TARGET_STEP
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

ol_progress_reset() { OUTLAST_STEP='' OUTLAST_FIRST_STEP='' OUTLAST_MARK='' OUTLAST_LOG_READ=0; }

# Steps in stdin, one a line: the first match of each, so that `.*` eats no digits of it; and the words of evaluations and
# saves. Progress bars end their lines with \r, and colours stand between words.
_ol_progress_marks() {
  local args=(-e 's/\x1b\[[0-9;]*[A-Za-z]//g' -e 't c' -e ':c') kind regex
  for kind in '' eval save; do
    case $kind in
      eval) regex=$OUTLAST_EVAL_REGEX ;;
      save) regex=$OUTLAST_SAVE_REGEX ;;
      *) regex=$OUTLAST_STEP_REGEX ;;
    esac
    [[ -z $regex ]] || args+=(-e "s"$'\001'"$regex"$'\001\\n'"${kind:+$kind }"$'\\1\\n\001' -e 't f')
  done
  tr '\r' '\n' | LC_ALL=C sed -nE "${args[@]}" -e 'd' -e ':f' -e 's/^[^\n]*\n([^\n]*)\n.*/\1/p' | grep -xE '[0-9]+|(eval|save) .*'
}

# Print how many bytes at the end of FILE have no line end yet. A line of 4 KB is taken as it comes.
_ol_progress_unfinished() { # FILE
  local LC_ALL=C text
  text=$(tail -c 4096 "$1" | tr '\r\0' '\n ' && printf x)
  text=${text%x}
  text=${text##*$'\n'}
  printf '%d\n' "$((${#text} < 4096 ? ${#text} : 0))"
}

# A log can have gigabytes, so each byte is read once. Half a line is left for the next look: half a number
# would be a wrong step. Steps are looked for in the newest 2 MB only.
ol_progress_look() {
  local log=$1 size marks steps rest=0 counts='[0-9]*[1-9][0-9]*' chunk=$OUTLAST_STATE/chunk
  OUTLAST_MARK=''
  size=$(stat -c %s "$log" 2>/dev/null) || return 0
  ((size > OUTLAST_LOG_READ)) || return 0
  tail -c "+$((OUTLAST_LOG_READ + 1))" "$log" | head -c "$((size - OUTLAST_LOG_READ))" >"$chunk"
  [[ ${2:-} == last ]] || rest=$(_ol_progress_unfinished "$chunk")
  ((rest == 0)) || truncate -s "-$rest" "$chunk"
  OUTLAST_LOG_READ=$((size - rest))
  grep -aE 'outlast: rank [0-9]+ |srun: error: [^ ]+: tasks? |error: Node failure on |error: Aborting, |(RPC|ping) .*(from|on|child) |: shepherd died from | CANCELLED AT [0-9]{4}-' "$chunk" >>"$OUTLAST_SAID"
  marks=$(tail -c 2000000 "$chunk" | _ol_progress_marks)
  [[ -n $marks ]] || return 0
  OUTLAST_MARK=${marks##*$'\n'}
  [[ ! $OUTLAST_MARK =~ ^[0-9]+$ ]] || OUTLAST_MARK=''
  [[ $OUTLAST_STEP_ZERO_COUNTS == 0 ]] || counts='[0-9]+'
  steps=$(grep -xE "$counts" <<<"$marks")
  [[ -n $steps ]] || return 0
  OUTLAST_STEP=$((10#${steps##*$'\n'}))
  [[ -n $OUTLAST_FIRST_STEP ]] || OUTLAST_FIRST_STEP=$((10#${steps%%$'\n'*}))
}

# trainer_state.json of Hugging Face knows both numbers: `"global_step": 600, ... "max_steps": 600`.
_ol_progress_hf_finished() {
  local state step max
  state=$(ol_shared_print grep -aE '^ *"(global_step|max_steps)": *[0-9]+' "$1/trainer_state.json" 2>/dev/null)
  step=$(sed -nE 's/.*"global_step": *([0-9]+).*/\1/p;' <<<"$state" | head -n 1)
  max=$(sed -nE 's/.*"max_steps": *([0-9]+).*/\1/p' <<<"$state" | head -n 1)
  [[ -n $step && ${max:-0} != 0 ]] || return 2
  ((step >= max))
}

# Trainers say "finished" too when they stop because we asked: then only numbers count.
ol_progress_is_finished() { # LOG NEWEST_CHECKPOINT ASKED
  local status step=0
  if [[ -n $OUTLAST_FINISH_REGEX && -z $3 ]] && tail -c 2000000 "$1" 2>/dev/null | grep -qaE -- "$OUTLAST_FINISH_REGEX"; then
    return 0
  fi
  if ((OUTLAST_TARGET_STEP > 0)); then
    # A trainer that logs each tenth step need not log the last one; its checkpoint bears the number.
    [[ ! $2 =~ ([0-9]+)[^0-9/]*$ ]] || step=$((10#${BASH_REMATCH[1]}))
    ((${OUTLAST_STEP:-0} >= OUTLAST_TARGET_STEP || step >= OUTLAST_TARGET_STEP))
    return
  fi
  if [[ -n $2 ]]; then
    _ol_progress_hf_finished "$2" && return 0
    status=$?
    ((status == 2)) || return 1
  fi
  [[ -z $OUTLAST_FINISH_REGEX ]] || return 1
  return 2
}
