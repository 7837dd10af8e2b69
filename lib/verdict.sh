# shellcheck shell=bash
# lib/verdict.sh - what the log says of an attempt that ended badly: `outlast crash`, asked in a child (docs/crash.md)
#
# Functions
#   ol_verdict              ask it about OUTLAST_LOG. 0 it has answered; 1 no answer: the launcher's own words stand
#   ol_verdict_is_sure      may the answer change what follows?
#   ol_verdict_reset        a new attempt: nothing is said, nobody is to blame
#   ol_verdict_told         print the answer in one line
#
# Sets     OUTLAST_PATTERN OUTLAST_SCOPE OUTLAST_PERSISTENCE OUTLAST_ACTION OUTLAST_CONFIDENCE (0.00 to 1.00)
#          OUTLAST_VERDICT_TEXT (the line that decides) OUTLAST_VERDICT_LINE (its number) OUTLAST_VERDICT_WHY
#          OUTLAST_SUSPECTS (array: hosts of ours where it began) OUTLAST_FINGERPRINT (if the log has one)
#          OUTLAST_BLAME (array: hosts of ours that are to be left out) OUTLAST_BLAME_WHY (one word)
#          OUTLAST_SUSPECT (lib/ending.sh: the checkpoint that the log complains of) is reset here
# Files    OUTLAST_STATE/verdict   the answer, KEY VALUE a line
# Reads    OUTLAST_LOG OUTLAST_NODE_LIST OUTLAST_HOSTS OUTLAST_RANKS_PER_NODE OUTLAST_SCHEDULER OUTLAST_LAUNCH_CODE
#          OUTLAST_TOOL_PID OUTLAST_CRASH_PATTERNS (empty: no patterns of the user's own in OUTLAST_RUN_DIR/patterns.toml)
# Needs    log, bounded, deadline, ending, py
# Sourcing it defines the functions above and does nothing else.

ol_verdict_reset() {
  OUTLAST_PATTERN='' OUTLAST_SCOPE='' OUTLAST_PERSISTENCE='' OUTLAST_ACTION='' OUTLAST_CONFIDENCE=''
  OUTLAST_VERDICT_TEXT='' OUTLAST_VERDICT_LINE='' OUTLAST_VERDICT_WHY='' OUTLAST_BLAME_WHY='' OUTLAST_SUSPECT='' OUTLAST_EVERYWHERE=''
  OUTLAST_BLAME=() OUTLAST_SUSPECTS=()
}

# A minute, and no large part of what is left. After TERM there is no time at all.
_ol_verdict_limit_s() {
  local left_s
  [[ ! -e $OUTLAST_STATE/term ]] || {
    echo 0
    return
  }
  left_s=$(ol_deadline_job_left)
  printf '%d\n' "$((left_s / 4 < 60 ? left_s / 4 : 60))"
}

# The run's first job makes its copy of the tools while it trains: an attempt that ends at once is earlier.
_ol_verdict_await_tool() { # SEC
  local tick
  for ((tick = 0; tick < $1 * 5; tick++)); do
    kill -0 "${OUTLAST_TOOL_PID:-0}" 2>/dev/null && [[ -n ${OUTLAST_TOOL_PID:-} ]] || return 0
    ! ((tick % 5 == 0)) || ! ol_shared test -e "$OUTLAST_RUN_DIR/tool/$OUTLAST_VERSION/outlast" || return 0
    ol_bounded_nap 0.2
  done
}

_ol_verdict_ask() { # FILE
  local pid tick limit_s status hosts=$OUTLAST_STATE/verdict.hosts own=$OUTLAST_RUN_DIR/patterns.toml layout=()
  limit_s=$(_ol_verdict_limit_s)
  ((limit_s > 0)) || return 1
  printf '%s\n' "${OUTLAST_NODE_LIST//,/$'\n'}" >"$hosts"
  # The driver of one machine knows it by a name that may be no host's.
  [[ $OUTLAST_SCHEDULER == local ]] || layout=(--hosts "$hosts" --ranks-per-node "$OUTLAST_RANKS_PER_NODE")
  [[ -z ${OUTLAST_LAUNCH_CODE:-} ]] || layout+=(--exit-code "$OUTLAST_LAUNCH_CODE")
  (
    trap - TERM USR1 EXIT
    _ol_verdict_await_tool "$((limit_s / 2))"
    [[ -z $OUTLAST_CRASH_PATTERNS ]] || ! ol_shared test -s "$own" || {
      ol_py_ask "$limit_s" crash "$OUTLAST_LOG" --words --scheduler "$OUTLAST_SCHEDULER" "${layout[@]}" --patterns "$own"
      status=$?
      ((status == 2)) || exit "$status" # 2: these patterns are no good; ours are
    }
    ol_py_ask "$limit_s" crash "$OUTLAST_LOG" --words --scheduler "$OUTLAST_SCHEDULER" "${layout[@]}"
  ) >"$1.new" &
  pid=$!
  for ((tick = 0; tick < limit_s * 5; tick++)); do
    if ! kill -0 "$pid" 2>/dev/null; then
      wait "$pid" && mv "$1.new" "$1"
      return
    fi
    [[ ! -e $OUTLAST_STATE/term ]] || break
    ol_bounded_nap 0.2
  done
  kill "$pid" 2>/dev/null
  return 1
}

# What comes out of a log is data: a word that is none of ours is no answer.
_ol_verdict_read() { # FILE
  local key value print='' hosts=''
  while read -r key value; do
    case $key in
      pattern) OUTLAST_PATTERN=$value ;;
      scope) OUTLAST_SCOPE=$value ;;
      persistence) OUTLAST_PERSISTENCE=$value ;;
      action) OUTLAST_ACTION=$value ;;
      confidence) OUTLAST_CONFIDENCE=$value ;;
      fingerprint) print=$value ;;
      blame) hosts=$value ;;
      line) OUTLAST_VERDICT_LINE=$value ;;
      text) OUTLAST_VERDICT_TEXT=$value ;;
      why) OUTLAST_VERDICT_WHY=$value ;;
    esac
  done <"$1"
  [[ $OUTLAST_PATTERN =~ ^[A-Za-z0-9_.-]+$ && $OUTLAST_SCOPE =~ ^[a-z-]+$ && $OUTLAST_PERSISTENCE =~ ^[a-z]+$ &&
    $OUTLAST_ACTION =~ ^[a-z-]+$ && $OUTLAST_CONFIDENCE =~ ^[01]\.[0-9][0-9]$ && $print =~ ^[0-9a-f]+$ ]] || return 1
  # What the log does not tell has no print of its own: how the first rank died says more. One is only ever compared
  # with its own kind, so each bears it in front (`end:` of lib/ending.sh).
  [[ $OUTLAST_PATTERN =~ ^(unknown|running|clean_exit)$ ]] || OUTLAST_FINGERPRINT="log:$OUTLAST_PATTERN:$print"
  _ol_verdict_blame "$hosts"
}

# Where it began is one thing; only with this action is it reason enough to leave a host out.
_ol_verdict_blame() { # HOSTS
  [[ -n $1 ]] || return 0
  mapfile -t OUTLAST_SUSPECTS < <(printf '%s\n' "${1// /$'\n'}" | _ol_ending_of_ours | cut -d' ' -f1 | sort -u)
  [[ $OUTLAST_ACTION == retry-exclude ]] && ol_verdict_is_sure && ((${#OUTLAST_SUSPECTS[@]} > 0)) || return 0
  OUTLAST_BLAME=("${OUTLAST_SUSPECTS[@]}") OUTLAST_BLAME_WHY=$OUTLAST_PATTERN
}

ol_verdict() {
  local file=$OUTLAST_STATE/verdict
  ol_verdict_reset
  rm -f "$file"
  [[ -s ${OUTLAST_LOG:-} ]] || return 1
  if ! _ol_verdict_ask "$file"; then
    [[ -e $OUTLAST_STATE/term ]] || ol_log_warn "the log was not judged: what the launcher says counts"
    return 1
  fi
  _ol_verdict_read "$file" && return
  ol_log_warn "the answer about the log makes no sense: what the launcher says counts"
  ol_verdict_reset
  return 1
}

# Held against labelled logs (tests/crash-corpus): below it is a guess, which a person may like to read.
ol_verdict_is_sure() { [[ -n $OUTLAST_CONFIDENCE ]] && ((10#${OUTLAST_CONFIDENCE/./} >= 70)); }

ol_verdict_told() {
  local sure=''
  ol_verdict_is_sure || sure=', not sure'
  printf '%s (%s, %s%s)%s\n' "$OUTLAST_PATTERN" "$OUTLAST_SCOPE" "$OUTLAST_PERSISTENCE" "$sure" \
    "${OUTLAST_VERDICT_TEXT:+: ${OUTLAST_VERDICT_TEXT:0:300}}"
}
