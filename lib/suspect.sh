# shellcheck shell=bash
# lib/suspect.sh - whose fault is a hang? What the stacks and the flight recorders of all its nodes say, compared
#
# Functions
#   ol_suspect FOLDER HOSTS   print `HOST REASON` if exactly one of the (comma separated) hosts is unlike all others: it did
#                             not answer (no_answer), has a rank that is stopped, or none at all (hang), or only its ranks are
#                             waited for (behind). `HOST behind weak`: so it seems, and not all have told. Else nothing
#
# A node has itself to blame only where the others answer and wait. Several at once are a network, a storage or a program; that
# ranks wait in different places is usual, so it accuses nobody.
# Files    FOLDER/HOST.txt (lib/stacks.sh), FOLDER/flight (what `outlast flight --words` says; may be missing)
# Needs    nothing
# Sourcing it defines the functions above and does nothing else.

# One HOST.txt of lib/stacks.sh: ok, no_answer or hang.
_ol_suspect_of() { # FILE
  if [[ ! -s $1 ]] || grep -qx 'no answer' "$1"; then
    echo no_answer
  elif grep -qE '^no process of this launch is here|State: [Tt] \(' "$1"; then
    echo hang
  else
    echo ok
  fi
}

# The only host whose ranks are waited for, and `weak` where some rank has told nothing. More ranks than a node has are no
# node's.
_ol_suspect_behind() { # FOLDER HOSTS
  local ranks count weak='' host accused
  [[ -s $1/flight ]] || return 0
  ranks=$(sed -nE 's/^behind ([0-9]+)$/\1/p' "$1/flight" | head -n 257 | paste -sd'|')
  count=${ranks//[!|]/}
  [[ -n $ranks ]] && ((${#count} < 256)) || return 0
  ! grep -qE '^(silent|unread) ' "$1/flight" || weak=weak
  mapfile -t accused < <(grep -lE "^== process [0-9]+, rank ($ranks): " "$1"/*.txt)
  ((${#accused[@]} == 1)) || return 0
  # A rank that is in no file may be anywhere.
  (($(grep -oE "^== process [0-9]+, rank ($ranks): " "${accused[0]}" | cut -d' ' -f5 | sort -u | wc -l) == ${#count} + 1)) || weak=weak
  for host in ${2//,/ }; do
    [[ $1/${host%%.*}.txt != "${accused[0]}" ]] || printf '%s behind%s\n' "$host" "${weak:+ $weak}"
  done
}

ol_suspect() {
  local host found='' count=0 others=0 says
  for host in ${2//,/ }; do
    says=$(_ol_suspect_of "$1/${host%%.*}.txt")
    if [[ $says == ok ]]; then
      others=$((others + 1))
    else
      count=$((count + 1))
      found="$host $says"
    fi
  done
  if ((count == 1 && others > 0)); then
    printf '%s\n' "$found"
  elif ((count + others > 1)); then
    says=$(_ol_suspect_behind "$1" "$2")
    ((count == 0)) || says=${says:+${says% weak} weak}
    [[ -z $says ]] || printf '%s\n' "$says"
  fi
}
