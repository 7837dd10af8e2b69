# shellcheck shell=bash
# lib/ladder.sh - a crash or a hang for which nobody is named: what is tried, and in which order (docs/nodes.md)
#
#   again      the same nodes once more
#   move       the place in the launch that is suspected gets other hardware: a spare, or the host of another place
#   host       it has followed its host to another place: that one is to blame
#   software   it stays in its place, whatever host has it: a person has to look
#   blind      the host that the list of bad nodes has most to say of gives way to a spare. Once a job
#
# Functions
#   ol_ladder_judge           of the ending at hand: which of these; sets OUTLAST_BLAME if it is host
#   ol_ladder_climb DROPPED   before the next launch: do it, unless nodes were dropped since OUTLAST_DROPPED was DROPPED
#
# What was tried before stands in the ledger of this job: a decision made again from its record comes out the same.
# Sets     OUTLAST_RUNG (empty: somebody is named, or it is no crash and no hang) OUTLAST_RUNG_WHY OUTLAST_RUNG_SLOT
#          OUTLAST_RUNG_HOST (place, from 0, and host that are moved) OUTLAST_WORST (whom the list says most of)
# Reads    OUTLAST_CLASS OUTLAST_FINGERPRINT OUTLAST_BLAME OUTLAST_SUSPECTS OUTLAST_SCOPE OUTLAST_NODE_LIST OUTLAST_NODES
#          OUTLAST_SWAPPED OUTLAST_SWAPS OUTLAST_STATE
# Needs    log, ledger, history, nodes, badnodes, verdict, ending
# Sourcing it defines the functions above and does nothing else.

# Print the place and the host where it may have begun, or `- -`: the only one of the log's suspects; whom a hang's stacks
# point at; the rank that died first.
_ol_ladder_suspect() {
  local name='' each slot
  if ((${#OUTLAST_SUSPECTS[@]} == 1)); then
    name=${OUTLAST_SUSPECTS[0]}
  elif [[ $OUTLAST_CLASS == hang ]]; then
    read -r name _ 2>/dev/null <"$OUTLAST_STATE/suspect"
  elif [[ ${OL_ENDING_DEATH:-} =~ rank\ [0-9]+\ on\ ([A-Za-z0-9._-]+)\ ended ]]; then
    name=${BASH_REMATCH[1]}
  fi
  IFS=, read -ra each <<<"$OUTLAST_NODE_LIST"
  for slot in "${!each[@]}"; do
    [[ -z $name || ${each[slot]%%.*} != "${name%%.*}" ]] || {
      printf '%d %s\n' "$slot" "${each[slot]}"
      return
    }
  done
  echo - -
}

# Print why no node is moved for it, or nothing.
_ol_ladder_why_not() {
  local scope=unknown
  ! ol_verdict_is_sure || scope=$OUTLAST_SCOPE
  if [[ ! $scope =~ ^(hardware|fabric|unknown|none)$ ]]; then
    echo "the log puts it down to $scope, which no other node mends"
  elif [[ ! $scope =~ ^(hardware|fabric)$ && $OUTLAST_CLASS != hang && -z ${OL_ENDING_MADE:-} ]]; then
    echo "it has made no step, and nothing speaks of hardware"
  elif ((OUTLAST_SWAPPED >= OUTLAST_SWAPS)); then
    echo "this job has swapped nodes $OUTLAST_SWAPPED times (guard.swaps)"
  fi
}

_ol_ladder_is() { # RUNG WHY [SLOT HOST]
  OUTLAST_RUNG=$1 OUTLAST_RUNG_WHY=$2 OUTLAST_RUNG_SLOT=${3:-} OUTLAST_RUNG_HOST=${4:-}
}

# The table. Reads of its caller: times (so often has it ended a launch of this job before), slot and host (suspected), moved_slot,
# moved_out (what was moved for it, `-` nothing), further (1: a step beyond it has become durable since),
# had_blind, spares (idle and not moved out themselves), why_not.
_ol_ladder_rung() {
  if ((times == 0)); then
    _ol_ladder_is again "for the first time in this job: the same nodes once more"
  elif [[ -n $why_not ]]; then
    _ol_ladder_is again "$why_not"
  elif [[ $moved_out != - && $host == "$moved_out" ]]; then
    _ol_ladder_is host "it has followed $host from place $moved_slot to place $slot" "$slot" "$host"
  elif [[ $moved_slot != - && $slot == "$moved_slot" && $further == 0 ]]; then
    _ol_ladder_is software "place $slot fails on $host as it did on $moved_out, so it is no node's fault" "$slot" "$host"
  elif [[ $moved_slot == - && $slot != [-0] ]] && ((spares > 0 || OUTLAST_NODES > 2)); then
    _ol_ladder_is move "again, and it may have begun on $host" "$slot" "$host"
  elif ((had_blind == 0 && spares > 0)) && _ol_ladder_worst; then
    _ol_ladder_is blind "again, and of all nodes the list of bad ones has most to say of $OUTLAST_WORST" "$OUTLAST_WORST_SLOT" "$OUTLAST_WORST"
  else
    _ol_ladder_is again "again, and there is nothing else to try in this job"
  fi
}

# Sets OUTLAST_WORST and OUTLAST_WORST_SLOT. Status 1: the list says nothing of any of them. The script's own host is none.
_ol_ladder_worst() {
  local each slot
  IFS=, read -ra each <<<"$OUTLAST_NODE_LIST"
  OUTLAST_WORST=$(ol_badnodes_worst "${each[@]:1}") || OUTLAST_WORST=''
  for slot in "${!each[@]}"; do
    [[ $slot == 0 || -z $OUTLAST_WORST || ${each[slot]} != "$OUTLAST_WORST" ]] || {
      OUTLAST_WORST_SLOT=$slot
      return 0
    }
  done
  return 1
}

ol_ladder_judge() {
  local times slot host moved_slot moved_out further had_blind spares why_not
  OUTLAST_WORST=''
  _ol_ladder_is '' ''
  [[ $OUTLAST_CLASS =~ ^(crash|hang)$ && -z ${OUTLAST_BLAME[*]:-} && -n ${OUTLAST_FINGERPRINT:-} ]] || return 0
  read -r slot host < <(_ol_ladder_suspect)
  read -r times moved_slot moved_out further had_blind < <(ol_history_tries "$OUTLAST_FINGERPRINT")
  why_not=$(_ol_ladder_why_not)
  spares=$(ol_nodes_fresh)
  _ol_ladder_rung
  ol_log_info "nobody is named: $OUTLAST_RUNG_WHY ($OUTLAST_RUNG)"
  [[ $OUTLAST_RUNG != host ]] || OUTLAST_BLAME=("$host") OUTLAST_BLAME_WHY=follows_host
}

ol_ladder_climb() { # DROPPED
  [[ $OUTLAST_RUNG == move || $OUTLAST_RUNG == blind ]] || return 0
  if [[ ${OUTLAST_DROPPED:-} != "$1" ]]; then
    ol_log_info "$OUTLAST_RUNG_HOST keeps its place: others were found sick"
    return 0
  fi
  ol_nodes_move "$OUTLAST_RUNG_SLOT" how="$OUTLAST_RUNG" fingerprint="$OUTLAST_FINGERPRINT" why="$OUTLAST_RUNG_WHY"
  [[ $OUTLAST_RUNG != blind ]] || ol_nodes_doubt blind_swap "$OUTLAST_RUNG_HOST"
}
