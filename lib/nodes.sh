# shellcheck shell=bash
# lib/nodes.sh - which nodes of this job train, which stand by, which are out of use (docs/nodes.md)
#
# The first node runs this script. The ranks meet there, and their stop file and the first rank's checkpoints lie there: it
# always has the first place of a launch, and a job that has lost it can only hand over to the next one.
#
# Functions
#   ol_nodes_pick                who trains in the next launch: those of the last one in their places, so that what lies on
#                                their disks stays useful, and a spare in the place of one that is out of use; neighbours
#                                at first. 1: too few are left (OUTLAST_WHY)
#   ol_nodes_suffice             are enough left for a launch? 1: no (OUTLAST_WHY)
#   ol_nodes_drop REASON HOST... not used in this job any more, and blamed for REASON. Dead ones (node_down, no_answer, rebooted)
#                                are given up to the scheduler, which would end the job for them. It writes no strike: that
#                                is a file on the shared file system, and may take minutes
#   ol_nodes_move SLOT FIELD...  the host of that place stands by, and a spare has its place; without a spare that was in no such
#                                place itself it changes places with another one. The fields go to the ledger. 1: cannot
#   ol_nodes_doubt REASON HOST   half a strike: not out of use, and the last to be picked as a spare
#   ol_nodes_strike              write down the strikes that these have left
#   ol_nodes_strike_aside        the same in a process of its own, while the job goes on
#   ol_nodes_is_dropped HOST     is it out of use?
#   ol_nodes_others              print all but the first and those that were given up, with commas between
#   ol_nodes_is_the_sites COUNT  do so many have the same trouble at once that it is the site's, and no node's fault?
#   ol_nodes_spares              print how many are left that do not train
#   ol_nodes_are_spent           had the job spares, and are too few nodes left for a launch now?
#   ol_nodes_fresh               print how many of them have not been moved out of a place
#
# Sets     OUTLAST_NODE_LIST (hosts of the launch, in the order of ranks) OUTLAST_WHY OUTLAST_DROPPED OUTLAST_SLOTS
#          OUTLAST_MOVED (those that were moved out of a place)
# Files    OUTLAST_STATE/gone   nodes that were given up, one a line: nothing is started there any more
# Reads    OUTLAST_HOSTS OUTLAST_NODES
# Needs    log, ledger, badnodes
# Sourcing it defines the functions above and does nothing else.

ol_nodes_is_dropped() { [[ " ${OUTLAST_DROPPED:-} " == *" $1 "* ]]; }

# Those that are not out of use, one a line, as the scheduler has them: neighbours come one after another.
_ol_nodes_left() {
  local host
  for host in "${OUTLAST_HOSTS[@]}"; do
    ol_nodes_is_dropped "$host" || printf '%s\n' "$host"
  done
}

ol_nodes_suffice() {
  local usable=()
  mapfile -t usable < <(_ol_nodes_left)
  if ol_nodes_is_dropped "${OUTLAST_HOSTS[0]}"; then
    OUTLAST_WHY="${OUTLAST_HOSTS[0]} runs this script and is out of use"
  elif ((${#usable[@]} < OUTLAST_NODES)); then
    OUTLAST_WHY="${#usable[@]} of ${#OUTLAST_HOSTS[@]} nodes are left, and a launch takes $OUTLAST_NODES"
  else
    return 0
  fi
  return 1
}

# Those of HOST... that no job has had trouble with lately, then those that one had: a strike is a memory, and no
# reason to wait for other nodes in a queue.
_ol_nodes_by_record() { # HOST...
  local known='' host bad=()
  (($# > 0)) || return 0
  known=$(ol_badnodes_known "$@") || known=''
  for host in "$@"; do
    if [[ $'\n'$known == *$'\n'"$host "* ]]; then bad+=("$host"); else printf '%s\n' "$host"; fi
  done
  ((${#bad[@]} == 0)) || printf '%s\n' "${bad[@]}"
}

# Who could take a place: all that are left and have none. `fresh`: and were in none that was suspected; `moved`: and were.
_ol_nodes_free() { # fresh|moved
  local host left kind
  local -A has=()
  for host in "${OUTLAST_SLOTS[@]}"; do has[$host]=1; done
  mapfile -t left < <(_ol_nodes_left)
  for host in "${left[@]}"; do
    kind=fresh
    [[ " ${OUTLAST_MOVED:-} " != *" $host "* ]] || kind=moved
    [[ -n ${has[$host]:-} || $kind != "$1" ]] || printf '%s\n' "$host"
  done
}

# In the order in which they are taken. Who was only suspected may be innocent, and is better than nobody.
_ol_nodes_idle() {
  local kind who
  for kind in fresh moved; do
    mapfile -t who < <(_ol_nodes_free "$kind")
    _ol_nodes_by_record "${who[@]}"
  done
}

ol_nodes_pick() {
  ol_nodes_suffice || return
  if [[ -z ${OUTLAST_SLOTS[*]:-} ]]; then _ol_nodes_first; else _ol_nodes_again; fi
  local IFS=,
  OUTLAST_NODE_LIST="${OUTLAST_SLOTS[*]}"
}

# In the scheduler's order again after those with a record have gone to the end.
_ol_nodes_first() {
  local idle=() host
  local -A chosen=()
  mapfile -t idle < <(_ol_nodes_idle)
  OUTLAST_SLOTS=("${OUTLAST_HOSTS[0]}")
  for host in "${idle[@]}"; do
    ((${#OUTLAST_SLOTS[@]} < OUTLAST_NODES)) || break
    [[ $host == "${OUTLAST_HOSTS[0]}" ]] || OUTLAST_SLOTS+=("$host")
  done
  for host in "${OUTLAST_SLOTS[@]}"; do chosen[$host]=1; done
  OUTLAST_SLOTS=()
  for host in "${OUTLAST_HOSTS[@]}"; do
    [[ -z ${chosen[$host]:-} ]] || OUTLAST_SLOTS+=("$host")
  done
}

_ol_nodes_again() {
  local idle=() slot out next=0
  mapfile -t idle < <(_ol_nodes_idle)
  for slot in "${!OUTLAST_SLOTS[@]}"; do
    out=${OUTLAST_SLOTS[slot]}
    ol_nodes_is_dropped "$out" || continue
    OUTLAST_SLOTS[slot]=${idle[next]}
    next=$((next + 1))
    ol_ledger_add swapped out="$out" in="${OUTLAST_SLOTS[slot]}" slot:="$slot"
    ol_log_info "${OUTLAST_SLOTS[slot]} takes the place of $out"
  done
}

ol_nodes_move() { # SLOT FIELD...
  local slot=$1 out=${OUTLAST_SLOTS[$1]} in='' with=''
  shift
  (($(ol_nodes_fresh) == 0)) || read -r in < <(_ol_nodes_idle)
  if [[ -n $in ]]; then
    OUTLAST_MOVED="${OUTLAST_MOVED:-} $out"
  else
    with=$((${#OUTLAST_SLOTS[@]} - 1))
    ((with != slot)) || with=$((with - 1))
    ((with > 0)) || return 1
    in=${OUTLAST_SLOTS[with]}
    OUTLAST_SLOTS[with]=$out
  fi
  OUTLAST_SLOTS[slot]=$in
  ol_ledger_add swapped out="$out" in="$in" slot:="$slot" "$@" ${with:+with:="$with"}
  ol_log_info "$in takes the place of $out${with:+, which goes to place $with}"
}

ol_nodes_doubt() { OL_NODES_OWED+=("$1 $2"); } # REASON HOST

ol_nodes_drop() { # REASON HOST...
  local reason=$1 host who=()
  shift
  for host in "$@"; do
    ol_nodes_is_dropped "$host" || who+=("$host")
    OUTLAST_DROPPED="${OUTLAST_DROPPED:-} $host"
  done
  ((${#who[@]} > 0)) || return 0
  ol_log_warn "out of use from now on: ${who[*]} ($reason)"
  ol_ledger_add excluded nodes="${who[*]}" why="$reason"
  OL_NODES_OWED+=("$reason ${who[*]}")
  [[ ! $reason =~ ^(node_down|no_answer|rebooted)$ ]] || _ol_nodes_give_up "${who[@]}"
}

ol_nodes_strike() {
  local line words strikes owed=("${OL_NODES_OWED[@]}")
  OL_NODES_OWED=()
  for line in "${owed[@]}"; do
    read -ra words <<<"$line"
    strikes=1
    [[ ${words[0]} != blind_swap ]] || strikes=0.5
    OUTLAST_STRIKES=$strikes ol_badnodes_add "${words[@]}"
  done
}

ol_nodes_strike_aside() {
  [[ -n ${OL_NODES_OWED[*]:-} ]] || return 0
  (
    trap - TERM USR1 EXIT
    ol_nodes_strike
  ) &
  OL_NODES_OWED=()
}

# A job that keeps a dead node is ended for it: by PBS after seven minutes, by Slurm as soon as it sees it. One that gives
# the node up may drain, and go on. After TERM it is too late.
_ol_nodes_give_up() { # HOST...
  local host
  printf '%s\n' "$@" >>"$OUTLAST_STATE/gone"
  [[ ! -e $OUTLAST_STATE/term ]] && declare -F ol_sched_release >/dev/null || return 0
  for host in "$@"; do
    if ol_sched_release "$host"; then
      ol_log_info "gave $host up; the job goes on without it"
    else
      ol_log_warn "$host could not be given up: the scheduler may end the job for it"
    fi
  done
}

# Also asked by processes that began before a node was lost (lib/coordinator.sh): so it is the file that knows.
ol_nodes_others() {
  local host gone='' list=''
  gone=$(cat "$OUTLAST_STATE/gone" 2>/dev/null)
  for host in "${OUTLAST_HOSTS[@]:1}"; do
    [[ $'\n'$gone$'\n' == *$'\n'"$host"$'\n'* ]] || list+=${list:+,}$host
  done
  printf '%s' "$list"
}

# More than two, and more than one in twenty.
ol_nodes_is_the_sites() { (($1 > 2 && $1 * 20 > ${#OUTLAST_HOSTS[@]})); }

ol_nodes_spares() {
  local usable=()
  mapfile -t usable < <(_ol_nodes_left)
  printf '%d\n' "$((${#usable[@]} > OUTLAST_NODES ? ${#usable[@]} - OUTLAST_NODES : 0))"
}

ol_nodes_are_spent() {
  local usable=()
  mapfile -t usable < <(_ol_nodes_left)
  ((${#OUTLAST_HOSTS[@]} > OUTLAST_NODES && ${#usable[@]} < OUTLAST_NODES))
}

ol_nodes_fresh() {
  local who=()
  mapfile -t who < <(_ol_nodes_free fresh)
  printf '%d\n' "${#who[@]}"
}
