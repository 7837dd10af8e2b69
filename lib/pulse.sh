# shellcheck shell=bash
# lib/pulse.sh - are all our nodes alive? Schedulers see a dead one late, and then end the whole job for it
#
# Slurm waits for five minutes (SlurmdTimeout); PBS calls a node down after a minute and ends its job after seven (pbs-facts,
# section 6); mpiexec waits for four (PALS) or for ever (MPICH). So we look, where there is a reason to: the agent of a node is
# silent (lib/coordinator.sh), PBS calls a node down, or the training says nothing new. A node is dead when nothing can be
# started there, twice, though it can elsewhere: schedulers are mistaken while their daemon is restarted, and agents die alone.
#
# Functions
#   ol_pulse_begin          a launch begins
#   ol_pulse_look TICK      look now and then, in a process of its own: call it once a second while ranks run
#
# Files    OUTLAST_STATE/dead          the dead nodes of this launch, one a line; dead.why: how they are known
#          OUTLAST_STATE/dead_spares   those of the others: they are dropped, and training goes on
#          OUTLAST_STATE/silent        nodes whose agents are silent, one a line; the coordinator writes it
# Sets     OUTLAST_PULSE_PID
# Reads    OUTLAST_NODE_LIST OUTLAST_HOSTS OUTLAST_POLL_S OUTLAST_STEP OUTLAST_LOG_READ OUTLAST_TOKEN
# Needs    log, nodes, reach, successor
# Sourcing it defines the functions above and does nothing else.

ol_pulse_begin() {
  [[ -z ${OUTLAST_PULSE_PID:-} ]] || kill -s KILL "$OUTLAST_PULSE_PID" 2>/dev/null # it is about the last launch
  OL_PULSE_SEEN='' OL_PULSE_TICK=0 OL_PULSE_WAIT_S=$OUTLAST_POLL_S
  rm -f "$OUTLAST_STATE"/dead{,.why,_spares}
}

# Has the training been quiet for long? Long is three times what it was between the last two signs of life, at most ten minutes.
_ol_pulse_is_quiet() { # TICK
  local seen=$OUTLAST_STEP.$OUTLAST_LOG_READ wait_s
  [[ -z $OUTLAST_STEP ]] || seen=$OUTLAST_STEP
  if [[ $seen != "$OL_PULSE_SEEN" ]]; then
    wait_s=$((3 * ($1 - OL_PULSE_TICK)))
    OL_PULSE_WAIT_S=$((wait_s < OUTLAST_POLL_S ? OUTLAST_POLL_S : (wait_s > 600 ? 600 : wait_s)))
    OL_PULSE_SEEN=$seen OL_PULSE_TICK=$1
  fi
  (($1 - OL_PULSE_TICK >= OL_PULSE_WAIT_S))
}

# Of our nodes those in stdin, by whatever name; not the one that we run on, and none that is out of use.
_ol_pulse_of_ours() {
  local host names
  local -A named=()
  mapfile -t names
  for host in "${names[@]}"; do
    [[ -z ${host%%.*} ]] || named[${host%%.*}]=1
  done
  for host in "${OUTLAST_HOSTS[@]:1}"; do
    [[ -z ${named[${host%%.*}]:-} ]] || ol_nodes_is_dropped "$host" || printf '%s\n' "$host"
  done
}

# Who is to be asked, and why: sets SUSPECTS and WHY of the caller.
_ol_pulse_suspects() { # QUIET
  local names
  if [[ -s $OUTLAST_STATE/silent ]]; then
    suspects=$(_ol_pulse_of_ours <"$OUTLAST_STATE/silent") why="its agent is silent"
    [[ -z $suspects ]] || return 0
  fi
  if declare -F ol_sched_overlooks_nodes >/dev/null; then
    names=$(ol_sched_down_nodes "${OUTLAST_HOSTS[@]:1}") || names=''
    suspects=$(_ol_pulse_of_ours <<<"$names") why="the scheduler calls it down"
    [[ -z $suspects ]] || return 0
  fi
  suspects=''
  [[ $1 == 1 ]] || return 0
  suspects=$(_ol_pulse_of_ours <<<"${OUTLAST_NODE_LIST//,/$'\n'}") why="the training says nothing new"
}

_ol_pulse_ask() { # QUIET
  local suspects why dead host trains='' stands_by=''
  _ol_pulse_suspects "$1"
  [[ -n $suspects ]] || return 0
  dead=$(ol_reach_silent 20 "${suspects//$'\n'/,}") || return 0
  [[ -n $dead ]] || return 0
  if ol_nodes_is_the_sites "$(wc -l <<<"$dead")"; then
    ol_log_warn "$(wc -l <<<"$dead") nodes do not answer: no single one is to blame"
    return 0
  fi
  for host in $dead; do
    if [[ ,$OUTLAST_NODE_LIST, == *,$host,* ]]; then trains+=$host$'\n'; else stands_by+=$host$'\n'; fi
  done
  ol_log_warn "dead: ${dead//$'\n'/ } ($why, and nothing can be started there)"
  [[ -z $stands_by ]] || _ol_pulse_write dead_spares "$stands_by"
  [[ -n $trains ]] || return 0
  _ol_pulse_write dead.why "$why"$'\n'
  _ol_pulse_write dead "$trains"
}

_ol_pulse_write() { printf '%s' "$2" >"$OUTLAST_STATE/$1.new" && mv -f "$OUTLAST_STATE/$1.new" "$OUTLAST_STATE/$1"; }

# A spare that has died would end the job as well, when the scheduler sees it.
_ol_pulse_spares() {
  local who
  [[ -s $OUTLAST_STATE/dead_spares ]] || return 0
  mapfile -t who <"$OUTLAST_STATE/dead_spares"
  rm -f "$OUTLAST_STATE/dead_spares"
  ol_nodes_drop node_down "${who[@]}"
  ol_nodes_strike_aside
  ol_successor_exclude
}

ol_pulse_look() {
  local quiet=0
  ((${#OUTLAST_HOSTS[@]} > 1)) && [[ ! -e $OUTLAST_STATE/dead ]] || return 0
  _ol_pulse_spares
  # Where agents tell, a quiet training is no news.
  [[ -s $OUTLAST_STATE/sidecar_port ]] || ! _ol_pulse_is_quiet "$1" || quiet=1
  (($1 % (2 * OUTLAST_POLL_S) == 2 * OUTLAST_POLL_S - 1)) || return 0
  [[ $quiet == 1 || -s $OUTLAST_STATE/silent ]] || declare -F ol_sched_overlooks_nodes >/dev/null || return 0
  [[ -z ${OUTLAST_PULSE_PID:-} ]] || ! kill -0 "$OUTLAST_PULSE_PID" 2>/dev/null || return 0
  (
    trap - TERM USR1 EXIT
    _ol_pulse_ask "$quiet"
  ) &
  OUTLAST_PULSE_PID=$!
}
