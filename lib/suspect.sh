# shellcheck shell=bash
# lib/suspect.sh - whose fault is a hang? What the stacks of all its nodes say, compared
#
# Functions
#   ol_suspect FOLDER HOSTS   print `HOST REASON` if exactly one of the (comma separated) hosts is unlike all others: it did
#                             not answer (no_answer), has a rank that is stopped, or none at all (hang). Else nothing
#
# A node has itself to blame only where the others answer and wait. Several at once are a network, a storage or a program; that
# ranks wait in different places is usual, so it accuses nobody.
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
  ((count != 1 || others == 0)) || printf '%s\n' "$found"
}
