#!/usr/bin/env bats
# shellcheck disable=SC2034 # read by lib/pulse.sh
load job

setup() {
  a_job
  OUTLAST_HOSTS=(n1 n2.domain n3 n4 n5) OUTLAST_NODES=4 OUTLAST_NODE_LIST=n1,n2.domain,n3,n4
  OUTLAST_POLL_S=5 OUTLAST_PULSE_PID='' OUTLAST_LOG_READ=0
  ol_sched_on_each() { # fails where one of the nodes is in $SCHED/unreachable
    echo "start on $2" >>"$SCHED/told"
    ! grep -qxF -f <(tr ',' '\n' <<<"$2") "$SCHED/unreachable" 2>/dev/null
  }
  ol_pulse_begin
}

overlooks_nodes() { ol_sched_overlooks_nodes() { :; }; }
unreachable() { printf '%s\n' "$@" >"$SCHED/unreachable"; }
silent() { printf '%s\n' "$@" >"$OUTLAST_STATE/silent"; }

look() { # TICK...
  local tick
  for tick in "$@"; do
    status_of ol_pulse_look "$tick" 2>/dev/null
    [[ -z $OUTLAST_PULSE_PID ]] || wait "$OUTLAST_PULSE_PID" || true
  done
}

@test "pulse: a node that the scheduler calls down and that nothing can be started on is dead" {
  overlooks_nodes
  printf 'n3\nn4\n' >"$SCHED/down"
  unreachable n3 n4
  look 9
  [ "$(cat "$OUTLAST_STATE/dead")" = $'n3\nn4' ]
  [ "$(cat "$OUTLAST_STATE/dead.why")" = 'the scheduler calls it down' ]
}

@test "pulse: a node that we reach is alive, whatever the scheduler says: its daemon is being restarted" {
  overlooks_nodes
  echo n3 >"$SCHED/down"
  look 9
  [ "$(cat "$SCHED/told")" = 'start on n3' ]
  [ ! -e "$OUTLAST_STATE/dead" ]
}

@test "pulse: one whose agent is silent is asked, by whatever name, on every scheduler" {
  silent n2 n3
  unreachable n2.domain
  look 9
  [ "$(cat "$OUTLAST_STATE/dead")" = n2.domain ]
  run ! told 'start on .*n4.*'
}

@test "pulse: a launcher that does not reach our own node says nothing about others" {
  silent n3
  unreachable n1 n3
  look 9
  [ ! -e "$OUTLAST_STATE/dead" ]
}

@test "pulse: when many are gone at once it is no single one's fault" {
  silent n2 n3 n4
  unreachable n2.domain n3 n4
  look 9
  [ ! -e "$OUTLAST_STATE/dead" ]
}

@test "pulse: a dead spare is given up while training goes on" {
  silent n5
  unreachable n5
  ol_sched_release() { echo "release $*" >>"$SCHED/told"; }
  look 9
  [ ! -e "$OUTLAST_STATE/dead" ]
  look 10
  told 'release n5'
  ol_nodes_is_dropped n5
  : >"$SCHED/told"
  look 19
  [ ! -s "$SCHED/told" ]
}

@test "pulse: without agents those of a training that says nothing new are asked" {
  unreachable n4
  OUTLAST_STEP=7
  look {0..9}
  [ "$(cat "$OUTLAST_STATE/dead")" = n4 ]
  [ "$(cat "$OUTLAST_STATE/dead.why")" = 'the training says nothing new' ]
}

@test "pulse: nobody is asked while steps come, as slowly as they have come before" {
  local tick
  for tick in {0..49}; do
    OUTLAST_STEP=$((tick / 8))
    look "$tick"
  done
  [ ! -s "$SCHED/told" ]
}

@test "pulse: nobody is asked where agents tell, or where there is one node" {
  echo 7000 >"$OUTLAST_STATE/sidecar_port"
  look {0..30}
  rm "$OUTLAST_STATE/sidecar_port"
  OUTLAST_HOSTS=(n1)
  look {0..30}
  [ ! -s "$SCHED/told" ]
}

@test "pulse: it looks every second poll, one look at a time, until one is dead" {
  overlooks_nodes
  _ol_pulse_ask() { echo asked >>"$SCHED/told"; }
  look {0..29}
  [ "$(grep -c asked "$SCHED/told")" = 3 ]
  touch "$OUTLAST_STATE/dead"
  look 39
  [ "$(grep -c asked "$SCHED/told")" = 3 ]
}
