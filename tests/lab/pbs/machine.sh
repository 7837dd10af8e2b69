# shellcheck shell=bash
# tests/lab/pbs/machine.sh - what makes a lab look like Aurora: names, places, PBS's daemons
#
# The functions are described in tests/lab/slurm/machine.sh. The PBS is our stand-in (pbs/standin); with LAB=pbs it is
# the real one of this machine, in /opt/pbs. Queues are the same for both.
#
# Reads    LAB
#          OUTLAST_LAB_SCALE, how long the stand-in takes for what takes PBS a second (0.1)
#          OUTLAST_LAB_KILL_SCALE, the same for the time between TERM and KILL (1)

machine_shared=/lus/flare
machine_users=/lus/flare/projects/abc123
machine_home=/home
machine_path=/usr/local/bin:/usr/bin:/bin:/opt/pbs/bin
machine_try='pbsnodes -a'
machine_node=intel

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
  local dir=$1 names here=${BASH_SOURCE[0]%/*} which=standin
  mapfile -t names < <(machine_hosts "$2")
  [[ ${LAB:-} != pbs ]] || which=real
  printf '%s\n' "$which" >"$dir/conf/pbs"
  install -m 755 "$here/start" "$dir/conf/start"
  install -m 755 "$here/$which/start" "$dir/conf/pbs-start"
  install -m 755 "$here/$which/ctl" "$dir/conf/ctl"
  cp "$here/queues" "$here/real/mom_config" "$dir/conf/"
  _machine_qmgr "${names[@]}" >"$dir/conf/qmgr"
  _machine_facts "${names[@]}" >"$dir/conf/pbs.json"
}

# For the real one's qmgr; the stand-in reads the lines on queues.
_machine_qmgr() {
  cat "${BASH_SOURCE[0]%/*}/queues"
  printf 'set server %s\n' 'flatuid = True' 'job_history_enable = True' 'query_other_jobs = True' 'scheduler_iteration = 5'
  printf 'create node %s\n' "$@"
  printf 'set node %s resources_available.ncpus = 208\n' "$@"
}

_machine_facts() {
  local name full comma=''
  read -r full _ <<<"$(machine_names head)"
  printf '{"server": "%s", "scale": %s, "kill_scale": %s, "ncpus": 208, "hosts": {' \
    "$full" "${OUTLAST_LAB_SCALE:-0.1}" "${OUTLAST_LAB_KILL_SCALE:-1}"
  for name in "$@"; do
    read -r full _ <<<"$(machine_names "$name")"
    printf '%s"%s": "%s"' "$comma" "$name" "$full"
    comma=', '
  done
  printf '}}\n'
}

# What is ours lies in /opt/lab. PALS's mpiexec is first in PATH, as where a module has loaded it.
machine_furnish() {
  local dir=$1 target=$2 python=$3 here=${BASH_SOURCE[0]%/*} name
  mkdir -p "$target"/{etc/lab,var/log/pbs,opt/pbs,var/spool/pbs,opt/lab/{lib,pbs/{bin,sbin}},usr/local/{bin,sbin}}
  cp -R "$here/standin" "$target/opt/lab/lib/"
  sed "1s|.*|#!$python -ESs|" "$here/command" >"$target/opt/lab/lib/command"
  chmod 755 "$target/opt/lab/lib/command"
  "$python" -m compileall -q "$target/opt/lab/lib"
  for name in qsub qstat qdel qsig qalter qrls qhold qrerun qmgr qselect pbsnodes pbsdsh pbs_tmrsh pbs_release_nodes; do
    ln -s /opt/lab/lib/command "$target/opt/lab/pbs/bin/$name"
  done
  ln -s /opt/lab/lib/command "$target/opt/lab/pbs/sbin/pbs_server"
  ln -s /opt/lab/lib/command "$target/opt/lab/pbs/sbin/pbs_mom"
  ln -s command "$target/opt/lab/lib/shepherd"
  ln -s /opt/lab/lib/command "$target/usr/local/bin/mpiexec"
  ln -s /opt/lab/lib/command "$target/usr/local/sbin/palsd"
}

machine_mount() {
  local dir=$1 new=$2 host=$3
  mount --bind "$dir/conf" "$new/etc/lab"
  mount --bind "$dir/log" "$new/var/log/pbs"
  [[ $(<"$dir/conf/pbs") == standin ]] || return 0
  mount --bind "$new/opt/lab/pbs" "$new/opt/pbs"
  [[ $host != head ]] || mount --bind "$dir/state" "$new/var/spool/pbs"
}

machine_start() { /etc/lab/start; }

machine_is_ready() {
  local free
  free=$(/opt/pbs/bin/pbsnodes -a 2>/dev/null | grep -c 'state = free')
  ((free == $1))
}

machine_ctl() { /etc/lab/ctl "$1"; }
