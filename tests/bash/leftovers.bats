#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034 # a test is a subshell, and that is wanted; read by lib/leftovers.sh
load job

setup() {
  a_job
  OUTLAST_NODES=2 OUTLAST_HOSTS=(n1 n2 n3) OUTLAST_NODE_LIST=n1,n2
}

# A process of an earlier launch, in a session of its own.
left_behind() { # TOKEN
  OUTLAST_TOKEN=$1 setsid sleep 1000 &
  STARTED+=("$!")
  until_true grep -qz "^OUTLAST_TOKEN=$1" "/proc/$!/environ"
}
is_gone() { ! kill -0 "$1" 2>/dev/null; }
clear() { status_of ol_leftovers_clear 2>/dev/null; }

@test "leftovers: what this job's launches have left is killed, also from before a requeue; others' is not" {
  OUTLAST_JOB_ID=7.server
  left_behind 7.server.0.000003.1
  left_behind 7.server.1.000004.2
  left_behind 77.server.0.000003.1
  left_behind 7xserver1.0.000003.1
  clear
  [ "$status" = 0 ]
  until_true is_gone "${STARTED[0]}"
  until_true is_gone "${STARTED[1]}"
  kill -0 "${STARTED[2]}"
  kill -0 "${STARTED[3]}"
}

@test "leftovers: a node that does not come clean is dropped, and one that does not answer" {
  ol_reach_failing() { printf 'n2\nn3\n'; }
  ol_reach_silent() { echo n3; }
  clear
  [ "$status" = 3 ]
  [ "$(grep -c '"event":"excluded"' "$OUTLAST_STATE/events.jsonl")" = 2 ]
  [[ $(head -n 1 "$OUTLAST_STATE/events.jsonl") == *'"nodes":"n2","why":"leftovers"'* ]]
  [[ $(event excluded) == *'"nodes":"n3","why":"no_answer"'* ]]
}

@test "leftovers: nobody is dropped by the word of a launcher that does not work, or of all nodes" {
  ol_reach_failing() { printf 'n1\nn2\nn3\n'; }
  ol_reach_silent() { return 2; }
  clear
  [ "$status" = 1 ]
  [[ $OUTLAST_WHY == 'nobody can say'* ]]
  ol_reach_silent() { ol_reach_failing; }
  clear
  [ "$status" = 1 ]
  [ "$(event excluded)" = "" ]
}

@test "leftovers: TERM ends the wait" {
  touch "$OUTLAST_STATE/term"
  ol_reach_failing() { sleep 60; }
  clear
  [ "$status" = 2 ]
}
