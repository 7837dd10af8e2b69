# shellcheck shell=bash
# lib/ledger.sh - the record of what happened: one JSON object a line (docs/ledger.md)
#
# Functions
#   ol_ledger_add EVENT [KEY=TEXT | KEY:=NUMBER]...   write an event, node-local and at once
#   ol_ledger_flush                                   append what is new to the run's events.jsonl
#   ol_ledger_json KEY=TEXT | KEY:=NUMBER ...         print the fields as `,"KEY":VALUE...`
#
# Reads    OUTLAST_STATE, OUTLAST_RUN_DIR, OUTLAST_RUN, OUTLAST_JOB_ID, OUTLAST_RESTART, OUTLAST_ATTEMPT
# Needs    bounded
# Sourcing it defines the functions above and does nothing else.

# Print TEXT as the inside of a JSON string; control characters other than tab and newline are dropped,
# and the length is capped, so that one event stays under 4 KB (an append of that size is not torn).
_ol_ledger_escape() {
  local text=${1:0:800}
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  text=${text//$'\t'/\\t}
  text=${text//[[:cntrl:]]/}
  printf '%s' "$text"
}

ol_ledger_json() {
  local field key value
  for field in "$@"; do
    key=${field%%=*}
    value=${field#*=}
    if [[ $key == *: && $value =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?$ ]]; then
      printf ',"%s":%s' "${key%:}" "$value"
    elif [[ $key == *: ]]; then
      printf ',"%s":null' "${key%:}"
    else
      printf ',"%s":"' "$key"
      _ol_ledger_escape "$value"
      printf '"'
    fi
  done
}

# Several of our processes write events, so a lock on the node-local file numbers them.
ol_ledger_add() {
  local event=$1 file=$OUTLAST_STATE/events.jsonl now_s seq=0 fields
  shift
  printf -v now_s '%(%s)T' -1
  fields=$(ol_ledger_json "$@")
  {
    flock -w 5 9
    [[ ! -s $file ]] || seq=$(wc -l <"$file")
    printf '{"t":%d,"run":"%s","job":"%s","restart":%d,"attempt":%d,"seq":%d,"event":"%s"%s}\n' \
      "$now_s" "$OUTLAST_RUN" "$OUTLAST_JOB_ID" "${OUTLAST_RESTART:-0}" "${OUTLAST_ATTEMPT:-0}" \
      "$((seq + 1))" "$event" "$fields" >>"$file"
  } 9>>"$OUTLAST_STATE/events.lock"
}

# Status: 0 all is on the shared file system, else later. After an append whose end is not known the same
# events are sent again, and what somebody left half-written gets a line end first: readers drop torn lines
# and what they have seen.
ol_ledger_flush() {
  local file=$OUTLAST_STATE/events.jsonl sent=0 size
  [[ -s $file ]] || return 0
  [[ -s $OUTLAST_STATE/events.sent ]] && read -r sent <"$OUTLAST_STATE/events.sent"
  size=$(stat -c %s "$file")
  ((size > sent)) || return 0
  # shellcheck disable=SC2016 # expanded by the child
  ol_shared bash -c '{ [[ ! -s $4 || -z $(tail -c 1 "$4") ]] || echo; tail -c "+$(($2 + 1))" "$1" | head -c "$3"; } >>"$4"' _ \
    "$file" "$sent" "$((size - sent))" "$OUTLAST_RUN_DIR/events.jsonl" || return 1
  printf '%d\n' "$size" >"$OUTLAST_STATE/events.sent"
}
