# shellcheck shell=bash
# lib/pulse.sh - are all our nodes alive? Where the scheduler ends a job minutes after one has died, we look ourselves
#
# PBS calls a node down after a minute and ends its job after seven (pbs-facts, section 6); mpiexec waits for four
# (PALS) or for ever (MPICH). A node is dead when PBS calls it down and we cannot start anything on it: PBS alone is
# mistaken while its daemon there is restarted.
#
# Functions
#   ol_pulse_look           look now and then, in a process of its own: call it once a second while ranks run
#
# Files    OUTLAST_STATE/dead   the dead nodes of this attempt, one a line
# Sets     OUTLAST_PULSE_PID
# Reads    OUTLAST_NODE_LIST OUTLAST_POLL_S
# Needs    log
# Sourcing it defines the functions above and does nothing else.

_ol_pulse_ask() {
  local others down
  IFS=, read -ra others <<<"${OUTLAST_NODE_LIST#*,}"
  down=$(ol_sched_down_nodes "${others[@]}") || return
  [[ -n $down ]] || return 0
  ! ol_sched_on_each 20 "${down//$'\n'/,}" true >/dev/null 2>&1 || return 0
  ol_log_warn "dead: ${down//$'\n'/ }"
  printf '%s\n' "$down" >"$OUTLAST_STATE/dead.new" && mv -f "$OUTLAST_STATE/dead.new" "$OUTLAST_STATE/dead"
}

# The first node is the one that we run on, and is not asked about.
ol_pulse_look() { # SECONDS_SINCE_LAUNCH
  declare -F ol_sched_overlooks_nodes >/dev/null || return 0
  [[ $OUTLAST_NODE_LIST == *,* && ! -e $OUTLAST_STATE/dead ]] && (($1 % (2 * OUTLAST_POLL_S) == 2 * OUTLAST_POLL_S - 1)) || return 0
  [[ -z ${OUTLAST_PULSE_PID:-} ]] || ! kill -0 "$OUTLAST_PULSE_PID" 2>/dev/null || return 0
  (
    trap - TERM USR1 EXIT
    _ol_pulse_ask
  ) &
  OUTLAST_PULSE_PID=$!
}
