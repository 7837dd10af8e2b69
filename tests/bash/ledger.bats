#!/usr/bin/env bats
load job

# Each line of FILE, decoded by somebody else's JSON: prints the fields that are asked for, or fails.
json() { # FILE FIELD...
  "$ROOT/.venv/bin/python" - "$@" <<'END'
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    event = json.loads(line)
    print(*(repr(event[key]) for key in sys.argv[2:]))
END
}

@test "ledger_add: one line that is JSON, with run, job, restart, attempt and number" {
  ol_ledger_add started host=n1
  ol_ledger_add ended class=crash
  run -0 json "$OUTLAST_STATE/events.jsonl" run job restart attempt seq event
  [ "${lines[0]}" = "'demo' '7' 0 1 1 'started'" ]
  [ "${lines[1]}" = "'demo' '7' 0 1 2 'ended'" ]
}

@test "ledger_add: any text comes back as it was: quotes, backslashes, ampersands, line ends, tabs, umlauts" {
  local text=$'say "no" \\ a & b\n\tgrün, C:\\new {"a": 1}'
  ol_ledger_add ended evidence="$text"
  run -0 json "$OUTLAST_STATE/events.jsonl" evidence
  [ "$output" = "'say \"no\" \\\\ a & b\\n\\tgrün, C:\\\\new {\"a\": 1}'" ]
}

@test "ledger_add: control characters of a log do not break the line" {
  ol_ledger_add ended evidence=$'\e[31mred\e[0m\r\x01\x7f end'
  run -0 json "$OUTLAST_STATE/events.jsonl" evidence
  [ "$output" = "'[31mred[0m end'" ]
}

@test "ledger_add: an equals sign belongs to the value, a second field to itself" {
  ol_ledger_add ended evidence="a=b=c" code:=-9
  run -0 json "$OUTLAST_STATE/events.jsonl" evidence code
  [ "$output" = "'a=b=c' -9" ]
}

@test "ledger_add: what is no number is null" {
  ol_ledger_add ended step:= code:=12x ran_s:=1.5 margin_s:=007
  run -0 json "$OUTLAST_STATE/events.jsonl" step code ran_s margin_s
  [ "$output" = "None None 1.5 None" ]
}

@test "ledger_add: an event stays under 4 KB, the longest of texts too" {
  local text
  printf -v text '%*s' 9000 ''
  text=${text// /\"}
  ol_ledger_add held why="$text" todo="$text"
  [ "$(wc -c <"$OUTLAST_STATE/events.jsonl")" -lt 4096 ]
  json "$OUTLAST_STATE/events.jsonl" why
}

@test "ledger_add: many processes at once write whole lines, numbered without a gap" {
  local writer
  for writer in 1 2 3 4; do
    for _ in 1 2 3 4 5; do ol_ledger_add progress step:="$writer"; done &
  done
  wait
  run -0 json "$OUTLAST_STATE/events.jsonl" seq
  [ "$(sort -n <<<"$output" | tr '\n' ' ')" = "$(seq -s ' ' 20) " ]
}

@test "ledger_add: nothing but the event is written, the first time too" {
  run -0 ol_ledger_add started
  [ "$output" = "" ]
}

@test "ledger_flush: appends what is new, once" {
  ol_ledger_add started
  ol_ledger_flush
  ol_ledger_add first_step step:=1
  ol_ledger_flush
  ol_ledger_flush
  run -0 json "$OUTLAST_RUN_DIR/events.jsonl" seq event
  [ "${#lines[@]}" = 2 ]
  [ "${lines[1]}" = "2 'first_step'" ]
}

@test "ledger_flush: after an append that failed the same events go again, behind a line end" {
  ol_ledger_add started
  mv "$OUTLAST_RUN_DIR" "$OUTLAST_RUN_DIR.gone"
  status_of ol_ledger_flush 2>/dev/null
  [ "$status" = 1 ]
  mv "$OUTLAST_RUN_DIR.gone" "$OUTLAST_RUN_DIR"
  printf '{"t":1,"run":"de' >"$OUTLAST_RUN_DIR/events.jsonl"
  ol_ledger_flush
  [ "$(sed -n 2p "$OUTLAST_RUN_DIR/events.jsonl")" = "$(cat "$OUTLAST_STATE/events.jsonl")" ]
}

@test "ledger_flush: a new job's events do not stick to the torn line of the job before" {
  printf '{"t":1,"run":"de' >"$OUTLAST_RUN_DIR/events.jsonl"
  ol_ledger_add started
  ol_ledger_flush
  grep -qxF "$(cat "$OUTLAST_STATE/events.jsonl")" "$OUTLAST_RUN_DIR/events.jsonl"
}
