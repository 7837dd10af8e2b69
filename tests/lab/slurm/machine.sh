# shellcheck shell=bash
# tests/lab/slurm/machine.sh - what makes a lab look like Frontier: names, places, Slurm's daemons
#
# A lab's scripts source one such file, tests/lab/SCHEDULER/machine.sh, and know nothing else of the scheduler.
# Functions
#   machine_hosts N          print the names of N compute hosts
#   machine_names HOST       print a host's names, the canonical one first
#   machine_configure DIR N ROOT    write all that outlives a reboot, once
#   machine_furnish DIR TARGET PYTHON   make what all hosts have, in the layer that they share
#   machine_mount DIR NEW HOST          mount what only some hosts see, or each its own; NEW is the host's root
#   machine_start            in a host: start its daemons
#   machine_is_ready N       on the head: are all N compute hosts ready for jobs?
#   machine_ctl VERB         on the head: stop, start, hang, cont the scheduler
#
# Sets     machine_shared machine_users machine_home, the folders: the shared file system that `freeze` freezes,
#          what users' scratch folders lie in, home folders; machine_path, users' PATH;
#          machine_try, a command that shows a newcomer something; machine_node, of tests/fixtures/nodes

machine_shared=/lustre/orion
machine_users=/lustre/orion/abc123/scratch
machine_home=/ccs/home
machine_path=/usr/local/bin:/usr/bin:/bin
machine_try=sinfo
machine_node=amd

machine_hosts() { seq -f 'frontier%05.0f' "$1"; }
machine_names() { printf '%s\n' "$1"; }

machine_configure() { "${BASH_SOURCE[0]%/*}/configure" "$@"; }

machine_furnish() { mkdir -p "$2"/{mnt/bb,etc/slurm} "$2"/var/{log/slurm,spool/slurmctld,spool/slurmd}; }

machine_mount() {
  local dir=$1 new=$2
  if [[ -e $dir/cgroup ]]; then
    mount -t tmpfs -o mode=755 cgroup "$new/sys/fs/cgroup"
    mkdir "$new/sys/fs/cgroup/freezer"
    mount --bind /sys/fs/cgroup/freezer "$new/sys/fs/cgroup/freezer"
  fi
  mount -t tmpfs -o mode=755,size=256m bb "$new/mnt/bb" # the node-local disk
  mount --bind "$dir/conf" "$new/etc/slurm"
  mount --bind "$dir/state" "$new/var/spool/slurmctld"
  mount --bind "$dir/log" "$new/var/log/slurm"
}

machine_start() {
  local gpu
  mkdir -p /run/munge /var/spool/slurmd
  for gpu in 0 1 2 3 4 5 6 7; do mknod "/run/gpu$gpu" c 1 3; done
  chmod 666 /run/gpu?
  install -m 400 /etc/slurm/munge.key /run/munge/key
  munged --key-file=/run/munge/key --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/pid \
    --seed-file=/run/munge/seed --log-file="/var/log/slurm/munged-$HOSTNAME.log" --num-threads=2
  if [[ $HOSTNAME != head ]]; then
    slurmd
  elif [[ -e /var/spool/slurmctld/clustername ]]; then
    slurmctld
  else
    slurmctld -c
  fi
}

machine_is_ready() {
  local idle
  idle=$(sinfo -h -N -p batch -t idle -o %N 2>/dev/null | wc -l)
  ((idle == $1))
}

machine_ctl() {
  # After `scontrol reconfigure` 24.11's has the name of its file.
  local name='slurmctld(-wlm)?'
  case $1 in
    stop)
      pkill -TERM -x "$name"
      while pgrep -x "$name"; do sleep 0.05; done
      ;;
    start) pgrep -x "$name" || slurmctld ;;
    hang) pkill -STOP -x "$name" ;;
    cont) pkill -CONT -x "$name" ;;
    *) return 2 ;;
  esac >/dev/null
}
