# shellcheck shell=bash
# tests/lab/pbs/machine.sh - what makes a lab look like Aurora: names, places, PBS's daemons
#
# The functions are described in tests/lab/slurm/machine.sh. The PBS is our stand-in; with LAB=pbs in the environment
# of `lab up` it is the real one that is installed on this machine (its qsub is on PATH).

machine_shared=/lus/flare
machine_users=/lus/flare/projects/abc123
machine_home=/home
machine_path=/usr/local/bin:/usr/bin:/bin:/opt/pbs/bin
machine_try='pbsnodes -a'

machine_hosts() {
  local number
  for ((number = 0; number < $1; number++)); do printf 'x4407c%ds%db0n0\n' "$((number / 8))" "$((number % 8))"; done
}

# PBS calls a host by its full name, as Aurora's does.
machine_names() {
  case $1 in
    head) echo aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov aurora-pbs-0001 head ;;
    *) printf '%s.hsn.cm.aurora.alcf.anl.gov %s\n' "$1" "$1" ;;
  esac
}

machine_configure() {
  local names
  [[ ${LAB:-} == pbs ]] || { echo "lab: LAB=pbs takes the PBS that is installed; there is no other yet" >&2 && return 1; }
  mapfile -t names < <(machine_hosts "$2")
  "${BASH_SOURCE[0]%/*}/real/configure" "$1" "${names[@]}"
}

machine_furnish() { mkdir -p "$1"/{etc/lab,var/log/pbs,opt/pbs,var/spool/pbs}; }

machine_mount() {
  local dir=$1 new=$2
  mount --bind "$dir/conf" "$new/etc/lab"
  mount --bind "$dir/log" "$new/var/log/pbs"
}

machine_start() { /etc/lab/start; }
machine_is_ready() {
  local free
  free=$(/opt/pbs/bin/pbsnodes -a 2>/dev/null | grep -c 'state = free')
  ((free == $1))
}
machine_ctl() { /etc/lab/ctl "$1"; }
