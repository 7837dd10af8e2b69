#!/usr/bin/env bats
# shellcheck disable=SC2034 # read by lib/pulse.sh
load job

setup() {
  a_job
  OUTLAST_NODE_LIST=n1,n2,n3 OUTLAST_POLL_S=5 OUTLAST_PULSE_PID=''
  ol_sched_overlooks_nodes() { :; }
  ol_sched_on_each() {
    echo "start on $2" >>"$SCHED/told"
    [[ ! -e $SCHED/unreachable ]]
  }
}

look() { # TICK
  ol_pulse_look "$1" 2>/dev/null
  [[ -z $OUTLAST_PULSE_PID ]] || wait "$OUTLAST_PULSE_PID" || true
}

@test "pulse: a node that the scheduler calls down and that nothing can be started on is dead" {
  printf 'n2\nn3\n' >"$SCHED/down"
  touch "$SCHED/unreachable"
  look 9
  [ "$(cat "$OUTLAST_STATE/dead")" = $'n2\nn3' ]
  told 'start on n2,n3'
}

@test "pulse: a node that we reach is alive, whatever the scheduler says: its daemon is being restarted" {
  echo n2 >"$SCHED/down"
  look 9
  told 'start on n2'
  [ ! -e "$OUTLAST_STATE/dead" ]
}

@test "pulse: no answer is not dead, and nothing is started on nodes that are up" {
  touch "$SCHED/silent" "$SCHED/unreachable"
  look 9
  rm "$SCHED/silent"
  look 9
  [ ! -e "$OUTLAST_STATE/dead" ]
  [ ! -s "$SCHED/told" ]
}

@test "pulse: it looks every second poll, one look at a time, until one is dead" {
  local tick
  _ol_pulse_ask() { echo asked >>"$SCHED/told"; }
  for tick in {0..29}; do look "$tick"; done
  [ "$(grep -c asked "$SCHED/told")" = 3 ]
  touch "$OUTLAST_STATE/dead"
  look 39
  [ "$(grep -c asked "$SCHED/told")" = 3 ]
}

@test "pulse: nothing is asked where the scheduler ends the job itself, or for one node" {
  _ol_pulse_ask() { echo asked >>"$SCHED/told"; }
  OUTLAST_NODE_LIST=n1
  look 9
  OUTLAST_NODE_LIST=n1,n2
  unset -f ol_sched_overlooks_nodes
  look 9
  [ ! -s "$SCHED/told" ]
}
