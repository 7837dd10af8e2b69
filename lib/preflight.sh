# shellcheck shell=bash
# lib/preflight.sh - before a launch: every node of this job is asked whether it is well (docs/preflight.md)
#
# Functions
#   ol_preflight            ask, judge, drop the bad ones. 0 go on; 1 no (OUTLAST_WHY, OUTLAST_PREFLIGHT_CLASS: unhealthy, storage,
#                           launch or held); 2 told to end
#   ol_preflight_again      the same in ten seconds, between two launches of which the first has failed and nobody is named for it
#   ol_preflight_look HOSTS the same without consequences: STATE/preflight has the answers, as lib/nodejudge.sh prints them.
#                           1: the launcher brought no answer at all, or nobody could judge them; 2: told to end
#
# The text that runs on a node goes there as words of a command: no node reads it from the shared file system. The whole takes
# 30 s at most: 8 for the modules, 22 for the nodes, whatever their number; a launcher that hangs is killed. Only where a few nodes
# give no answer, 90 s more may pass until it is known whether they are reached.
# Sets     OUTLAST_WHY OUTLAST_PREFLIGHT_CLASS
# Files    OUTLAST_STATE/preflight{,.said,.err}; OUTLAST_RUNS_DIR/node_counters.txt: how many errors each GPU had counted
# Reads    OUTLAST_PREFLIGHT OUTLAST_CHECK_* (the settings), OUTLAST_HOSTS OUTLAST_NODES OUTLAST_LOCAL_BASE OUTLAST_RUN_DIR OUTLAST_RUNS_DIR OUTLAST_JOB_ID
# Needs    log, bounded, ledger, environment, lock, nodecheck, nodejudge, nodes, reach
# Sourcing it defines the functions above and does nothing else.

# What the site's modules load is told by the modules themselves: a name may load nothing, with status 0. Prints `failed`,
# `asked NAME...` of those that are not loaded, `folders A:B`: what they have put in front of programs and libraries.
_ol_preflight_modules() {
  local before=:$PATH:${LD_LIBRARY_PATH:-}: folder folders name missing=''
  set +u
  OL_PREFLIGHT_ASKED=''
  if declare -F module >/dev/null; then
    # What a site asks for is written down on the way.
    eval "_ol_preflight_$(declare -f module)"
    module() {
      [[ $1 != load ]] || OL_PREFLIGHT_ASKED+=" ${*:2}"
      _ol_preflight_module "$@"
    }
  fi
  ol_site_modules >&2 || echo failed
  for name in $OL_PREFLIGHT_ASKED; do
    [[ $name == -* || :${LOADEDMODULES:-}: == *[:/]"$name"[:/]* ]] || missing+=" $name"
  done
  [[ -z $missing ]] || printf 'asked%s\n' "$missing"
  IFS=: read -ra folders <<<"$PATH:${LD_LIBRARY_PATH:-}"
  name=''
  for folder in "${folders[@]}"; do
    [[ $folder != /* || $before:$name: == *:"$folder":* || ! -d $folder ]] || name+=${name:+:}$folder
  done
  # Cut between two folders: half a name is nowhere.
  ((${#name} <= 4000)) || {
    name=${name:0:4001}
    name=${name%:*}
  }
  printf 'folders %s\n' "$name"
}

# Sets OUTLAST_CHECK_FOLDERS, and OL_PREFLIGHT_MODULES to the first node's own answer for the judge, if there is one.
_ol_preflight_load() {
  local word rest limit_s status=0
  OUTLAST_CHECK_FOLDERS='' OL_PREFLIGHT_MODULES='' OL_PREFLIGHT_FAILED=''
  [[ " ${OUTLAST_CHECK_SKIP:-} " != *" modules "* ]] && declare -F ol_site_modules >/dev/null || return 0
  (
    trap - TERM USR1 EXIT
    _ol_preflight_modules
  ) >"$OUTLAST_STATE/preflight.modules" 2>/dev/null </dev/null &
  limit_s=$(_ol_preflight_limit_s modules)
  _ol_preflight_wait "$!" "$limit_s" || status=$?
  ((status != 2)) || return 2
  ((status == 0)) || {
    OL_PREFLIGHT_MODULES=$'unknown\t'"no answer within $limit_s s"
    return 0
  }
  while read -r word rest; do
    case $word in
      failed) OL_PREFLIGHT_FAILED=1 ;;
      asked) OL_PREFLIGHT_MODULES=$'unknown\t'"not in LOADEDMODULES: $rest" ;;
      folders) OUTLAST_CHECK_FOLDERS=$rest ;;
    esac
  done <"$OUTLAST_STATE/preflight.modules"
}

# Seconds for the modules, and for the nodes.
_ol_preflight_limit_s() {
  if [[ $1 == modules ]]; then echo 8; elif [[ -n ${OL_PREFLIGHT_QUICK:-} ]]; then echo 10; else echo 22; fi
}

_ol_preflight_is_told() { [[ -e $OUTLAST_STATE/term || -e $OUTLAST_STATE/stop || -e $OUTLAST_STATE/deadline ]]; }

# Status 1: it has not ended within SEC; 2: told to end meanwhile. Either way it is killed.
_ol_preflight_wait() { # PID SEC
  local now_s until_s
  printf -v until_s '%(%s)T' -1
  until_s=$((until_s + $2))
  while kill -0 "$1" 2>/dev/null; do
    printf -v now_s '%(%s)T' -1
    if _ol_preflight_is_told || ((now_s >= until_s)); then
      kill -s KILL "$1" 2>/dev/null
      return "$((now_s < until_s ? 2 : 1))"
    fi
    ol_bounded_nap 0.1
  done
}

# Until all have answered, or their time is up. The launcher may still wait for a process that nothing can kill: nobody waits
# for the launcher.
_ol_preflight_ask() { # HOSTS
  local hosts=$1 said=$OUTLAST_STATE/preflight.said text pid limit_s until_s now_s each count
  IFS=, read -ra each <<<"$hosts"
  count=${#each[@]}
  text=$(ol_nodecheck_text)
  printf -v OUTLAST_PREFLIGHT_FROM_S '%(%s)T' -1
  limit_s=$(_ol_preflight_limit_s nodes)
  until_s=$((OUTLAST_PREFLIGHT_FROM_S + limit_s))
  : >"$said"
  (
    trap - TERM USR1 EXIT
    ol_bounded_close
    ol_sched_on_each "$limit_s" "$hosts" bash -c "$text" outlast-nodecheck
  ) >"$said" 2>"$OUTLAST_STATE/preflight.err" </dev/null &
  pid=$!
  while :; do
    (($(grep -c $'\tend\t' "$said") < count)) || break
    kill -0 "$pid" 2>/dev/null || break
    ! _ol_preflight_is_told || return 2
    printf -v now_s '%(%s)T' -1
    ((now_s < until_s)) || break
    ol_bounded_nap 0.1
  done
  printf -v OUTLAST_PREFLIGHT_TO_S '%(%s)T' -1
}

_ol_preflight_judge() { # HOSTS
  local new=$OUTLAST_STATE/preflight.counted
  : >"$new"
  ol_nodejudge "$1" "$OUTLAST_STATE/preflight.counters" "$new" <"$OUTLAST_STATE/preflight.said" >"$OUTLAST_STATE/preflight"
}

# On thousands of nodes a launcher may need longer to start than they have. Who would be blamed for no answer is asked once
# more whether it is there at all; where nobody can say, nobody is blamed. Adds to preflight.said; status 2: told to end.
_ol_preflight_reach() {
  local late silent node status=0 found='no checks in time, and it is reached'
  [[ -z ${OL_PREFLIGHT_QUICK:-} ]] || found='no checks in ten seconds'
  late=$(_ol_preflight_ruled bad | awk -F'\t' '$2 == "answer" { print $1 }')
  [[ -n $late ]] || return 0
  (
    trap - TERM USR1 EXIT
    ol_bounded_close
    [[ -n ${OL_PREFLIGHT_QUICK:-} ]] || ol_reach_silent 15 "${late//$'\n'/,}"
  ) >"$OUTLAST_STATE/preflight.silent" 2>/dev/null </dev/null &
  _ol_preflight_wait "$!" 90 || status=$?
  ((status != 2)) || return 2
  silent=$(<"$OUTLAST_STATE/preflight.silent")
  for node in $late; do
    [[ $'\n'$silent$'\n' == *$'\n'"$node"$'\n'* ]] ||
      printf '%s\tanswer\tunknown\t%s\tan answer\n%s\tend\tok\t0\t-\n' "$node" "$found" "$node"
  done >>"$OUTLAST_STATE/preflight.said"
}

ol_preflight_look() { # HOSTS
  local hosts=$1 first=${1%%,*}
  OUTLAST_CHECK_LOCAL=$OUTLAST_LOCAL_BASE OUTLAST_CHECK_SHARED=${OUTLAST_PREFLIGHT_READS:-$OUTLAST_RUN_DIR/project_dir} OUTLAST_CHECK_ALONE=1 OUTLAST_CHECK_MASTER=''
  if [[ $hosts == *,* ]]; then
    OUTLAST_CHECK_ALONE=''
    OUTLAST_CHECK_MASTER=$(ol_environment_master "$first" 2>/dev/null) || OUTLAST_CHECK_MASTER=''
  fi
  _ol_preflight_load || return
  _ol_preflight_ask "$hosts" || return
  if [[ -n $OL_PREFLIGHT_MODULES ]]; then
    printf '%s\tmodules\t%s\tall that the site loads\n' "$first" "$OL_PREFLIGHT_MODULES" |
      cat - "$OUTLAST_STATE/preflight.said" >"$OUTLAST_STATE/preflight.both" && mv "$OUTLAST_STATE/preflight.both" "$OUTLAST_STATE/preflight.said"
  fi
  ! _ol_preflight_is_told || return 2
  ol_shared_print cat "$OUTLAST_RUNS_DIR/node_counters.txt" >"$OUTLAST_STATE/preflight.counters" 2>/dev/null || :
  _ol_preflight_judge "$hosts"
  _ol_preflight_reach && _ol_preflight_judge "$hosts" || return
  [[ -s $OUTLAST_STATE/preflight ]] && grep -q $'\tend\t' "$OUTLAST_STATE/preflight.said"
}

# In a child: the newest line of each host and counter, of what FILE has and of NEW, under the lock.
_ol_preflight_merge() { # FILE NEW
  local now_s mark='' status=0
  ol_lock_take "$1" 5 || return
  printf -v now_s '%(%s)T' -1
  # shellcheck disable=SC2016 # of awk
  {
    [[ ! -s $1 ]] || cat "$1"
    sed "s/\$/\t$now_s/" "$2"
  } |
    awk '{ key = $1 " " $2 } !(key in line) { order[++n] = key } { line[key] = $1 " " $2 " " $3 " " $4 } END { for (i = 1; i <= n; i++) print line[order[i]] }' \
      >"$1.new.$$" && mv "$1.new.$$" "$1" || status=$?
  ol_lock_drop "$1"
  return "$status"
}

_ol_preflight_keep() {
  local new=$OUTLAST_STATE/preflight.counted text
  [[ -s $new ]] || return 0
  text=$(declare -f _ol_preflight_merge ol_lock_take ol_lock_drop _ol_lock_break)
  ol_shared bash -c "set -o pipefail; umask 027; $text; _ol_preflight_merge \"\$@\"" _ "$OUTLAST_RUNS_DIR/node_counters.txt" "$new" ||
    ol_log_warn "the counters of GPU errors could not be kept: the next look has nothing to compare with"
}

# Rows with this ruling, as `HOST CHECK SEEN`, tabs between.
_ol_preflight_ruled() { awk -F'\t' -v ruling="$1" 'BEGIN { OFS = "\t" } $6 == ruling { print $1, $2, $4 }' "$OUTLAST_STATE/preflight"; }

# Sets OL_PREFLIGHT_OK, _BAD, _UNKNOWN: how many answers there are of each kind, and OL_PREFLIGHT_NODES: from how many.
_ol_preflight_count() {
  read -r OL_PREFLIGHT_OK OL_PREFLIGHT_BAD OL_PREFLIGHT_UNKNOWN OL_PREFLIGHT_NODES < <(
    awk -F'\t' '{ n[$3]++; nodes += !had[$1]++ } END { print n["ok"] + 0, n["bad"] + 0, n["unknown"] + 0, nodes + 0 }' "$OUTLAST_STATE/preflight"
  )
}

# `HOST:CHECK` of those to blame, at most 20, and `CHECK (NODES)` of what is the site's.
_ol_preflight_note() { # SECONDS
  local blamed site
  blamed=$(_ol_preflight_ruled bad | head -n 20 | cut -f 1,2 --output-delimiter=: | paste -sd' ')
  site=$(_ol_preflight_ruled site | cut -f 2 | sort | uniq -c | awk '{ printf "%s%s (%d)", sep, $2, $1; sep = ", " }')
  _ol_preflight_count
  ol_ledger_add preflight nodes:="$OL_PREFLIGHT_NODES" ok:="$OL_PREFLIGHT_OK" bad:="$OL_PREFLIGHT_BAD" unknown:="$OL_PREFLIGHT_UNKNOWN" \
    seconds:="$1" blamed="$blamed" site="$site" ${OL_PREFLIGHT_QUICK:+quick:=1}
  ol_log_info "preflight of $OL_PREFLIGHT_NODES nodes in $1 s: $OL_PREFLIGHT_BAD answers bad, $OL_PREFLIGHT_UNKNOWN unknown"
}

_ol_preflight_drop() {
  local host check seen
  local -A of_check=()
  while IFS=$'\t' read -r host check seen; do
    ol_log_warn "$host: $check is bad: $seen"
    of_check[$check]+=" $host"
  done < <(_ol_preflight_ruled bad)
  for check in "${!of_check[@]}"; do
    # shellcheck disable=SC2086 # names of hosts, as words
    ol_nodes_drop "health_check_$check" ${of_check[$check]}
  done
  ol_nodes_strike_aside
}

# What is not a node's own fault. Status 1: nobody should launch now.
_ol_preflight_site() {
  local check count
  while read -r count check; do
    if [[ $check == shared_fs ]]; then
      OUTLAST_WHY="preflight: the shared file system does not answer $count of ${#OUTLAST_HOSTS[@]} nodes"
      OUTLAST_PREFLIGHT_CLASS=storage
      return 1
    fi
    ol_log_warn "$check is bad on $count of ${#OUTLAST_HOSTS[@]} nodes: that is the site's, or what we expect of it; going on"
  done < <(_ol_preflight_ruled site | cut -f 2 | sort | uniq -c)
}

_ol_preflight_hold() {
  local host check seen
  IFS=$'\t' read -r host check seen < <(_ol_preflight_ruled hold) || return 0
  OUTLAST_WHY="preflight: $check of $host is unknown ($seen), and this site wants that looked at"
  OUTLAST_PREFLIGHT_CLASS=held
  return 1
}

_ol_preflight_once() {
  local from_s now_s status=0 hosts why
  printf -v from_s '%(%s)T' -1
  hosts=$(_ol_nodes_left | paste -sd,)
  ol_preflight_look "$hosts" || status=$?
  ! _ol_preflight_is_told || status=2
  ((status != 2)) || {
    OUTLAST_WHY="preflight"
    return 2
  }
  printf -v now_s '%(%s)T' -1
  if ((status == 1)); then
    # Whether anything can be started is what the launch itself will show.
    [[ -s $OUTLAST_STATE/preflight ]] && why="no node answered within its time" || why="the answers could not be judged"
    ol_log_warn "preflight: nothing was checked: $why: $(tail -n 1 "$OUTLAST_STATE/preflight.err" | head -c 200)"
    ol_ledger_add warned text="preflight: nothing was checked: $why"
    return 0
  fi
  _ol_preflight_keep
  _ol_preflight_note "$((now_s - from_s))"
  if [[ -n $OL_PREFLIGHT_FAILED ]]; then
    OUTLAST_WHY="preflight: a module of $OUTLAST_SITE did not load, code 72"
    OUTLAST_PREFLIGHT_CLASS=launch
    return 1
  fi
  _ol_preflight_site && _ol_preflight_hold || return
  ! _ol_preflight_is_told || return 2
  _ol_preflight_drop
  ol_nodes_suffice && return
  OUTLAST_WHY="preflight: $OUTLAST_WHY"
  OUTLAST_PREFLIGHT_CLASS=unhealthy
  return 1
}

# Whoever gives no answer in ten seconds is asked once more when the last launch is cleared away, and what that launch still
# holds is no node's fault (lib/leftovers.sh). The launch waits for the file system and loads the modules itself.
ol_preflight_again() {
  local OUTLAST_CHECK_SKIP="${OUTLAST_CHECK_SKIP:-} gpu_process gpu_memory gpu_clock memory shared_fs modules" OUTLAST_CHECK_LIMIT_S=5 OL_PREFLIGHT_QUICK=1
  OUTLAST_WHY='' OUTLAST_PREFLIGHT_CLASS=''
  [[ ${OUTLAST_PREFLIGHT:-1} != 1 ]] || _ol_preflight_once
}

# A shared file system that stalls is asked again, three times a minute apart, before the nodes are given back.
ol_preflight() {
  local try tick status=0 OUTLAST_CHECK_SKIP=${OUTLAST_CHECK_SKIP:-}
  OUTLAST_WHY='' OUTLAST_PREFLIGHT_CLASS=''
  # What our own ranks from before a requeue hold is no fault of a node; the launch clears it away (lib/leftovers.sh).
  ((${OUTLAST_RESTART:-0} == 0)) || OUTLAST_CHECK_SKIP+=' gpu_process gpu_memory memory'
  [[ ${OUTLAST_PREFLIGHT:-1} == 1 ]] || return 0
  for try in 1 2 3; do
    status=0
    _ol_preflight_once || status=$?
    [[ $status == 1 && $OUTLAST_PREFLIGHT_CLASS == storage ]] && ((try < 3)) || return "$status"
    ol_log_warn "$OUTLAST_WHY; asking again in a minute"
    for ((tick = 0; tick < 60; tick++)); do
      ! _ol_preflight_is_told || return 2
      ol_bounded_nap 1
    done
  done
}
