# shellcheck shell=bash
# lib/lock.sh - one writer at a time of a file that several jobs share, also on mounts without flock
#
# The lock is FILE.lock, made whole by a link, as pyhelpers/outlast/badnodes/lock.py makes it. For a child that works on the
# shared file system: `declare -f ol_lock_take ol_lock_drop _ol_lock_break` brings it there.
#
# Functions
#   ol_lock_take FILE WAIT_S   0: ours; 1: others have it; 2: the folder takes no file
#   ol_lock_drop FILE          let go of it, if it is still ours
#
# Sets     mark (of the caller, local there): what stands in the lock while it is ours
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

ol_lock_take() { # FILE WAIT_S
  local lock=$1.lock own system tick seen
  read -r system </proc/sys/kernel/random/boot_id || system='?'
  system+=:$(readlink /proc/self/ns/pid || echo '?')
  mark="${HOSTNAME:-?} $system $$ $RANDOM$RANDOM"
  own=${1%/*}/.${lock##*/}.${HOSTNAME:-?}.$$.$RANDOM
  for ((tick = 0; tick < $2 * 10; tick++)); do
    (set -C && printf '%s\n' "$mark" >"$own") && chmod 0644 "$own" || return 2
    ln -- "$own" "$lock" 2>/dev/null
    # What stands in it is the truth: the answer to a link may be lost, and a count of links come out of a cache.
    seen=''
    read -r seen 2>/dev/null <"$lock"
    [[ $seen == "$mark" ]] || _ol_lock_break "$lock" "$own" "$system"
    rm -f -- "$own"
    [[ $seen != "$mark" ]] || return 0
    sleep 0.1
  done
  return 1
}

# Remove the lock of a dead owner: his process is gone from this very system, or he took it 30 s ago. Of several who judge
# so at once one moves it; a fresh one is put back.
_ol_lock_break() { # LOCK OWN SYSTEM
  local seen='' again='' where pid made_s now_s
  [[ -f $1 && ! -L $1 ]] || return 0
  read -r seen 2>/dev/null <"$1"
  read -r _ where pid _ <<<"$seen"
  made_s=$(stat -c %Y -- "$1") || return 0
  now_s=$(stat -c %Y -- "$2")
  if ! [[ $where == "$3" && $where != *'?'* && $pid =~ ^[0-9]+$ && $(LC_ALL=C kill -0 "$pid" 2>&1) == *"No such process"* ]]; then
    ((now_s - made_s >= 30)) || return 0
  fi
  mv -fT -- "$1" "$2.dead" 2>/dev/null || return 0
  read -r again <"$2.dead"
  [[ $again == "$seen" ]] || ln -- "$2.dead" "$1" 2>/dev/null
  rm -f -- "$2.dead"
}

ol_lock_drop() { # FILE
  [[ $(<"$1.lock") != "$mark" ]] || rm -f -- "$1.lock"
}
