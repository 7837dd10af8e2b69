# shellcheck shell=bash
# lib/badnodes.sh - nodes that were to blame, over jobs and runs (docs/badnodes.md)
#
# Functions
#   ol_badnodes_known HOST...       print `HOST REASON` of those that are bad now; 2: no answer
#   ol_badnodes_worst HOST...       print the one of them of which the file has most to say, or nothing; 2: no answer
#   ol_badnodes_add REASON HOST...  a strike for each; a failure is a warning. For a cancelled job nobody is written down, nor
#                                   where so many are to blame at once that the trouble is the site's; `struck` in the
#                                   ledger has the day on which they are well again
#   ol_badnodes_exclude             print the hosts to leave out of the next job, the worst first, a line each; none where
#                                   the scheduler leaves out no host; 2: no answer
#
# Reads    OUTLAST_BAD_NODES (empty: bad_nodes.txt beside the runs), OUTLAST_STRIKES (0.5: a mere suspicion), OUTLAST_EXCLUDE_CAP,
#          OUTLAST_RUN_DIR OUTLAST_STATE OUTLAST_HOSTS OUTLAST_CLASS OUTLAST_JOB_ID OUTLAST_RESTART OUTLAST_ATTEMPT
# Needs    log, bounded, ledger, lock, nodes, py
# Sourcing it defines the functions above and does nothing else.

_ol_badnodes_file() { printf '%s\n' "${OUTLAST_BAD_NODES:-${OUTLAST_RUN_DIR%/*}/bad_nodes.txt}"; }

# In a child: print `SCORE DAY HOST REASON` of each node that is bad on TODAY (days since 1970), the worst first. The rules
# are those of pyhelpers/outlast/badnodes/, and a test compares the two.
_ol_badnodes_read() { # FILE TODAY
  [[ -e $1 || -L $1 ]] || return 0
  if [[ -L $1 || ! -f $1 ]]; then
    printf 'outlast: %s is a link or no plain file: it is not read\n' "$1" >&2
    return 1
  fi
  # shellcheck disable=SC2016 # of awk
  head -c 4194304 -- "$1" | LC_ALL=C sort -s -b -k2,2 | LC_ALL=C awk -v today="$2" '
    function days(y, m, d) {
      if (m < 3) { y--; m += 12 }
      return 365 * y + int(y / 4) - int(y / 100) + int(y / 400) + int((153 * (m - 3) + 2) / 5) + d - 719469
    }
    function day_of(text, y, m, d) {
      if (text !~ /^[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]$/) return ""
      y = substr(text, 1, 4) + 0; m = substr(text, 6, 2) + 0; d = substr(text, 9, 2) + 0
      if (y < 1 || m < 1 || m > 12 || d < 1 || d > 31) return ""
      if (d > 28 && days(y, m, d) >= (m == 12 ? days(y + 1, 1, 1) : days(y, m + 1, 1))) return ""
      return days(y, m, d)
    }
    function node(name) {
      if (name ~ /^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$/) return ""
      sub(/\..*/, "", name)
      sub(/-(hsn|ib|eth|hsi|opa|roce)[0-9]*$/, "", name)
      if (length(name) > 64 || name !~ /^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$/) return ""
      return tolower(name) ~ /^(localhost|node|host|rank|unknown)$/ ? "" : name
    }
    function strikes_of(text, parts) {
      if (text !~ /^[0-9]+(\.[0-9]+)?$/) return 1
      split(text, parts, ".")
      return length(parts[1]) > 4 || length(parts[2]) > 2 || text + 0 == 0 ? 1 : text + 0
    }
    function ends(host, halves) {
      halves = int(2 * strikes[host])
      return since[host] + lasts[halves < 1 ? 1 : halves > 8 ? 8 : halves]
    }
    BEGIN { split("10 14 20 28 40 56 79 112", lasts, " ") }
    {
      sub(/\r+$/, ""); sub(/#.*/, ""); $0 = $0
      host = node($1); day = day_of($2)
      if (NF < 3 || host == "" || day == "") next
      count = 1
      for (at = 4; at <= NF; at++) if ($at ~ /^strikes=/) count = strikes_of(substr($at, 9))
      if (host in since && day < ends(host)) {
        strikes[host] += count
        if (day > since[host]) since[host] = day
      } else {
        strikes[host] = count; since[host] = day
      }
      reason[host] = substr($3, 1, 64)
      gsub(/[^A-Za-z0-9_.:+-]+/, "_", reason[host])
    }
    END {
      for (host in since) {
        if (today >= ends(host)) continue
        age = today > since[host] ? today - since[host] : 0
        printf "%012.6f %d %s %s\n", strikes[host] * exp(-log(2) * age / 14), since[host], host, reason[host]
      }
    }' | LC_ALL=C sort -k1,1r -k2,2nr -k3,3
}

# What _ol_badnodes_read prints, today. Status 2: no answer.
_ol_badnodes_now() {
  local today file
  printf -v today '%(%s)T' -1
  file=$(_ol_badnodes_file)
  ol_shared_print bash -c "set -o pipefail; $(declare -f _ol_badnodes_read); _ol_badnodes_read \"\$@\"" _ "$file" "$((today / 86400))" ||
    return 2
}

# Sets `name` of its caller: the node's own, without domain and network.
_ol_badnodes_name() { # HOST
  name=${1%%.*}
  [[ ! $name =~ ^(.+)-(hsn|ib|eth|hsi|opa|roce)[0-9]*$ ]] || name=${BASH_REMATCH[1]}
}

ol_badnodes_known() {
  local listed host name reason
  local -A why=()
  listed=$(_ol_badnodes_now) || return 2
  while read -r _ _ host reason; do
    [[ -z $host ]] || why[$host]=$reason
  done <<<"$listed"
  for host in "$@"; do
    _ol_badnodes_name "$host"
    [[ -z $name || -z ${why[$name]:-} ]] || printf '%s %s\n' "$host" "${why[$name]}"
  done
}

ol_badnodes_worst() {
  local listed bad host name
  listed=$(_ol_badnodes_now) || return 2
  while read -r _ _ bad _; do
    for host in "$@"; do
      _ol_badnodes_name "$host"
      [[ -z $name || $name != "$bad" ]] || {
        printf '%s\n' "$host"
        return
      }
    done
  done <<<"$listed"
}

ol_badnodes_exclude() {
  local listed
  ol_sched_excludes || return 0
  listed=$(_ol_badnodes_now) || return 2
  [[ -z $listed ]] || cut -d' ' -f3 <<<"$listed" | head -n "${OUTLAST_EXCLUDE_CAP:-200}"
}

# In a child: one more line for each HOST, under the lock, where JOB has not written one. The file is there whole at any time.
_ol_badnodes_append() { # FILE WAIT_S JOB REASON STRIKES HOST...
  local file=$1 mark='' status=0
  ol_lock_take "$1" "$2" || return
  shift 2
  _ol_badnodes_append_locked "$file" "$@" || status=$?
  ol_lock_drop "$file"
  return "$status"
}

_ol_badnodes_append_locked() { # FILE JOB REASON STRIKES HOST...
  local file=$1 job=$2 reason=$3 strikes=$4 new=${1%/*}/.${1##*/}.new host before try begun_s=$SECONDS lines=''
  shift 4
  [[ ! -L $file && (-f $file || ! -e $file) ]] || return 3
  for ((try = 0; try < 5; try++)); do
    before=$(stat -c '%d %i %s %y' -- "$file" 2>/dev/null)
    lines=''
    for host in "$@"; do
      # shellcheck disable=SC2016 # of awk
      [[ -f $file ]] && awk -v host="$host" -v job="job=$job" \
        '$1 == host { for (at = 4; at <= NF; at++) if ($at == job) found = 1 } END { exit !found }' "$file" ||
        printf -v lines '%s%s  %(%Y-%m-%d)T  %s%s  job=%s\n' "$lines" "$host" -1 "$reason" "$strikes" "$job"
    done
    [[ -n $lines ]] || return 0
    rm -f -- "$new"
    (set -C && umask 077 && _ol_badnodes_copy "$file" "$lines" >"$new") && _ol_badnodes_mode "$file" "$new" || return 3
    sync -- "$new"
    [[ $(<"$file.lock") == "$mark" ]] && ((SECONDS - begun_s < 10)) || return 1
    # Somebody's editor may have been at it meanwhile.
    [[ $(stat -c '%d %i %s %y' -- "$file" 2>/dev/null) == "$before" ]] || continue
    mv -fT -- "$new" "$file" || return 3
    return 0
  done
  return 1
}

_ol_badnodes_copy() { # FILE LINES
  if [[ -f $1 ]]; then
    cat -- "$1" || return
    [[ -z $(tail -c 1 -- "$1") ]] || echo
  fi
  printf '%s' "$2"
}

# The old file's mode, and its group where we may give it; a new file is the group's as far as its folder is.
_ol_badnodes_mode() { # FILE NEW
  local folder
  if [[ -f $1 ]]; then
    chmod --reference="$1" -- "$2" && { chgrp --reference="$1" -- "$2" 2>/dev/null || chmod g-w -- "$2"; }
  else
    folder=$(stat -c %A -- "${1%/*}")
    if [[ $folder == ?????w* ]]; then chmod 0660 -- "$2"; else chmod 0640 -- "$2"; fi
  fi
}

# Without Python, or with KILL near.
_ol_badnodes_floor() { # LIMIT_S FILE JOB REASON HOST...
  local limit_s=$1 strikes=${OUTLAST_STRIKES:-1} text
  if [[ $strikes =~ ^[0-9]+(\.5)?$ && $strikes != 1 ]]; then strikes="  strikes=$strikes"; else strikes=''; fi
  text=$(declare -f _ol_badnodes_append _ol_badnodes_append_locked _ol_badnodes_copy _ol_badnodes_mode ol_lock_take ol_lock_drop _ol_lock_break)
  # A job that is ended gets TERM more than once, in all its processes.
  ol_bounded "$limit_s" bash -c "trap '' TERM; export TZ=UTC0; $text; _ol_badnodes_append \"\$@\"" _ "$2" "$((limit_s - 2))" "$3" "$4" "$strikes" "${@:5}"
}

# Until when they are out, for the report: an event for each day. Bash alone writes strikes without counting them.
_ol_badnodes_note() { # WHAT_BADNODES_ADD_SAYS
  local line day
  local -A by_day=()
  while read -r line; do
    [[ ! $line =~ ^([A-Za-z0-9_-]+)\ is\ out\ until\ ([0-9-]{10})\  ]] ||
      by_day[${BASH_REMATCH[2]}]+=${by_day[${BASH_REMATCH[2]}]:+ }${BASH_REMATCH[1]}
  done <<<"$1"
  for day in "${!by_day[@]}"; do
    ol_ledger_add struck nodes="${by_day[$day]}" until="$day"
  done
}

ol_badnodes_add() {
  local reason=$1 all=${#OUTLAST_HOSTS[@]} file job host name told nodes=() limit_s=5 status=0
  shift
  (($# > 0)) && [[ ${OUTLAST_CLASS:-} != cancelled ]] || return 0
  if ol_nodes_is_the_sites "$#"; then
    ol_log_warn "$# of $all nodes are to blame at once ($reason): that is the site's trouble, and none is written down"
    return 0
  fi
  for host in "$@"; do
    _ol_badnodes_name "$host"
    [[ ! $name =~ ^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$ ]] || nodes+=("$name")
  done
  ((${#nodes[@]} > 0)) || return 0
  file=$(_ol_badnodes_file)
  reason=${reason//[^A-Za-z0-9_.:+-]/_}
  job=${OUTLAST_JOB_ID//[^A-Za-z0-9_.:+-]/_}.${OUTLAST_RESTART:-0}.${OUTLAST_ATTEMPT:-0}
  if [[ ! -e $OUTLAST_STATE/term ]]; then
    limit_s=45
    told=$(ol_py_ask 60 badnodes add --file="$file" --job="$job" --reason="${reason:0:64}" --strikes="${OUTLAST_STRIKES:-1}" \
      -- "${nodes[@]}") || status=$?
    ((status != 0)) || {
      _ol_badnodes_note "$told"
      return 0
    }
  fi
  if ((status != 75)); then # 75: others have the lock, and it was waited for
    status=0
    _ol_badnodes_floor "$limit_s" "$file" "$job" "${reason:0:64}" "${nodes[@]}" || status=$?
  fi
  ((status == 0)) || ol_log_warn "could not write ${nodes[*]} into $file (status $status)"
  return 0
}
